"""A Ray cluster on this machine, with two cores, for tests and for benchmarks/faults."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple


class Cluster(NamedTuple):
    address: str
    pid: int
    """the process whose descendants are the cluster's"""


@contextmanager
def ray_cluster(variables: Mapping[str, str]) -> Iterator[Cluster]:
    """Started when entered, with these environment variables; all of its processes are ended."""
    # The paths of sockets are limited, hence a short one.
    place, port = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp")), free_port()
    head = ["start", "--head", "--block", "--num-cpus", "2", "--port", str(port)]
    options = ["--include-dashboard=false", "--disable-usage-stats", "--temp-dir", str(place)]
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "ray"), *head, *options],
        env={name: v for name, v in variables.items() if name != "RAY_ADDRESS"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "Ray runtime started" in line:
                break
        yield Cluster(f"127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()  # it then ends all processes that it has started
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        shutil.rmtree(place, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
