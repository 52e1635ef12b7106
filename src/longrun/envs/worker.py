"""A worker process: `python -m longrun.envs.worker WORKER NUM_WORKERS CONNECTION_FD MEMORY_FD`.

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
from multiprocessing.connection import Connection

import cloudpickle


def main() -> None:
    worker, num_workers, connection_fd, memory_fd = map(int, sys.argv[1:])
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    connection = Connection(connection_fd)
    try:
        _serve(worker, num_workers, connection, memory_fd)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone: nobody is left to work for
    except BaseException:
        connection.send(("error", traceback.format_exc()))


def _serve(worker: int, num_workers: int, connection: Connection, memory_fd: int) -> None:
    from longrun.envs.memory import SharedArrays
    from longrun.envs.shard import Plan, Shard

    if worker > 0:
        warnings.simplefilter("ignore")  # the first worker says it for all
    plan: Plan = cloudpickle.loads(connection.recv_bytes())
    shard = Shard(plan, SharedArrays(plan.memory(), memory_fd), worker, num_workers)
    try:
        while True:
            command, arguments = connection.recv()
            if command == "close":
                return
            getattr(shard, command)(*arguments)
            connection.send(("done", arguments[0]))
    finally:
        shard.close()


def _exit_with_parent(parent: int) -> None:
    """An environment that hangs must not outlive a parent that was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
