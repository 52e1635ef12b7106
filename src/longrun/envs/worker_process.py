"""A worker process: `python -m longrun.envs.worker_process WORKER WORKERS CONNECTION_FD MEMORY_FD`.

Started as a program of its own, not by multiprocessing, so that a user's script is never imported
a second time and needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection

import cloudpickle

from longrun.envs.shard import Plan, Shard
from longrun.envs.shared_memory import SharedArrays
from longrun.errors import NonFiniteError


def main() -> None:
    worker, num_workers, connection_fd, memory_fd = map(int, sys.argv[1:])
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    if worker > 0:
        warnings.simplefilter("ignore")  # the first worker shows them for all
    connection = Connection(connection_fd)
    with suppress(EOFError, OSError):  # of the connection: the parent has ended
        program = connection.recv_bytes()
        failure = _serve(worker, num_workers, program, connection, memory_fd)
        if failure is not None:
            connection.send(failure)


def _serve(
    worker: int, num_workers: int, program: bytes, connection: Connection, memory_fd: int
) -> tuple[str, str] | None:
    """Run the parent's commands until `close`; send a failure's kind and message or traceback."""
    try:
        plan: Plan = cloudpickle.loads(program)
        shard = Shard(plan, SharedArrays(plan.memory(), memory_fd), worker, num_workers)
    except BaseException:
        return "error", traceback.format_exc()
    while True:
        command, arguments = connection.recv()
        try:
            if command == "close":
                shard.close()
                return None
            getattr(shard, command)(*arguments)
        except NonFiniteError as error:
            return "non-finite", str(error)
        except BaseException:
            return "error", traceback.format_exc()
        connection.send(("done", arguments[0]))


def _exit_with_parent(parent: int) -> None:
    """A worker whose environment hangs must not outlive a parent that was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
