"""A worker process: `python -m ...envs.worker_process FD PARENT WORKER WORKERS FD FD`.

PARENT is the parent's process id; the descriptors are of the connection, the pickled plan and the
shared memory. It is started as a program of its own, not by multiprocessing, so that a user's
script is never imported a second time and needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import mmap
import sys
import traceback
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection

import cloudpickle

from longrun.base.errors import EnvironmentFailure, NonFiniteError, WorkerError, text_of
from longrun.learning.envs.plan import Plan, SharedArrays
from longrun.learning.envs.processes import end_with
from longrun.learning.envs.vector_shard import make_shard

LONGEST_TRACEBACK = 3000


def main() -> None:
    connection_fd, parent, worker, num_workers, program_fd, memory_fd = map(int, sys.argv[1:])
    end_with(parent)
    if worker > 0:
        warnings.simplefilter("ignore")  # the first worker shows them for all
    connection = Connection(connection_fd)
    with suppress(EOFError, OSError):  # of the connection: the parent has ended
        failure = _serve(worker, num_workers, connection, program_fd, memory_fd)
        if failure is not None:
            connection.send(failure)
    with suppress(OSError):  # an environment has closed it
        connection.close()


def _serve(
    worker: int, num_workers: int, connection: Connection, program_fd: int, memory_fd: int
) -> EnvironmentFailure | None:
    """Run the parent's commands until `close`, or until one fails: the error that says so.

    For a command that is done, None is sent.
    """
    try:
        # Mapped, since all workers share the descriptor, and so its position.
        plan: Plan = cloudpickle.loads(mmap.mmap(program_fd, 0, access=mmap.ACCESS_READ))
        if not plan.acting.is_mlp:
            from longrun.learning.envs.own_policy import use_cpu

            use_cpu()
        arrays = SharedArrays(plan.memory(num_workers), memory_fd)
        shard = make_shard(plan, arrays, worker, num_workers)
        shard.heartbeat.rest()
    except BaseException as error:
        return _failure(worker, error)
    while True:
        command, arguments = connection.recv()
        try:
            if command == "close":
                shard.close()
                return None
            getattr(shard, command)(*arguments)
        except BaseException as error:
            return error if isinstance(error, NonFiniteError) else _failure(worker, error)
        shard.heartbeat.rest()
        connection.send(None)


def _failure(worker: int, error: BaseException) -> WorkerError:
    """The error about the exception that is being handled.

    The traceback's end must do, so that the message fits into one packet of the socket: the parent
    does not wait for a second one.
    """
    failed = WorkerError(f"worker {worker} failed: {text_of(error)}")
    failed.add_note(traceback.format_exc()[-LONGEST_TRACEBACK:])
    return failed


if __name__ == "__main__":
    main()
