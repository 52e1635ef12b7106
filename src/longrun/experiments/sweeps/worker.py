"""A sweep's worker process: `python -m longrun.experiments.sweeps.worker CONNECTION_FD`.

It trains one run after another, so that JAX is imported and programs are compiled once, and says
how it goes. Messages are JSON. A worker whose parent is gone saves its run and ends.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from longrun.experiments.sweeps.plan import Run

TELL_SECONDS = 0.5


def train_run(run: Run, path: Path, tell: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Train the run in its folder, from where it stands; how that ended.

    `tell` is given word of the progress now and then, and answers whether to go on.
    """
    from longrun.train import runs

    at = dict.fromkeys(range(len(run.replicas)), 0)
    told, goes_on = time.monotonic(), True

    def on_log(progress: Any) -> bool:
        nonlocal told, goes_on
        at[progress.replica] = progress.step
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            goes_on = tell(
                {
                    "kind": "progress",
                    "steps": sum(at.values()),
                    "steps_per_second": progress.steps_per_second,
                    "reward": progress.metrics["reward"],
                }
            )
        return goes_on

    try:
        if (path / "config.json").exists():
            session = runs.go_on(runs.load(path), run.steps, on_log)
        else:
            settings = {"num_workers": 0, **run.settings}
            session = runs.begin(
                path, run.env, run.configs(), run.seeds, run.steps, run.preset, on_log, **settings
            )
        session.run(progress_bar=False)
    except Exception as error:
        return _failed(error)
    return {"kind": "done" if goes_on else "stopped"}


def _failed(error: Exception) -> dict[str, Any]:
    """Wrong input stays wrong; anything else may go well the next time."""
    return {
        "kind": "failed",
        "error": f"{type(error).__name__}: {error}",
        "traceback": traceback.format_exc(),
        "errno": getattr(error, "errno", None),
        "again": not isinstance(error, ValueError),
    }


def main() -> None:
    connection = Connection(int(sys.argv[1]))

    def tell(message: dict[str, Any]) -> bool:
        """False when the parent wants no more or is gone."""
        try:
            connection.send_bytes(json.dumps(message).encode())
            return not connection.poll()  # whatever it says while a run is going on means stop
        except OSError:
            return False

    with suppress(EOFError, OSError):
        while True:
            order = json.loads(connection.recv_bytes())
            if "stop" in order:
                return
            outcome = train_run(Run.from_json(order["run"]), Path(order["path"]), tell)
            connection.send_bytes(json.dumps(outcome).encode())


if __name__ == "__main__":
    main()
