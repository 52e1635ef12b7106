"""Metrics for TensorBoard, Weights & Biases and MLflow, imported when they are first needed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from longrun.base.errors import InputError, LongrunError, text_of
from longrun.learning.options.config_options import written_options
from longrun.learning.train.progress import OnLog, Progress


def to_wandb(project: str, **settings: Any) -> OnLog:
    """Log metrics and evaluations to Weights & Biases: a run for each replica and call of `learn`.

    `settings` go to `wandb.init`. Needs the extra `wandb`.
    """
    wandb = _required("wandb")
    runs: dict[int, Any] = {}

    def to_wandb(progress: Progress) -> None:
        if progress.replica not in runs:
            name, about = _name(progress), _about(progress)
            usual = {"name": name, "config": about, "reinit": "create_new"}
            with _one_line_errors("Weights & Biases"):
                runs[progress.replica] = wandb.init(project=project, **usual | settings)
        runs[progress.replica].log(numbers_of(progress), step=progress.step)

    return _closed_by(to_wandb, runs, lambda run: run.finish())


def to_mlflow(experiment: str) -> OnLog:
    """Log metrics and evaluations to MLflow: a run for each replica and call of `learn`.

    MLFLOW_TRACKING_URI says where; without it MLflow writes to its default place. Needs the extra
    `mlflow`.
    """
    mlflow = _required("mlflow")
    runs: dict[int, str] = {}
    clients: list[Any] = []

    def start(progress: Progress) -> str:
        client = clients[0]
        found = client.get_experiment_by_name(experiment)
        place = client.create_experiment(experiment) if found is None else found.experiment_id
        run: str = client.create_run(place, run_name=_name(progress)).info.run_id
        for name, value in _about(progress).items():
            client.log_param(run, name, value)
        return run

    def to_mlflow(progress: Progress) -> None:
        if progress.replica not in runs:
            with _one_line_errors("MLflow"):
                if not clients:
                    clients.append(mlflow.MlflowClient())
                runs[progress.replica] = start(progress)
        now, step = int(time.time() * 1000), progress.step
        make = mlflow.entities.Metric
        rows = [make(name, value, now, step) for name, value in numbers_of(progress).items()]
        clients[0].log_batch(runs[progress.replica], metrics=rows)

    return _closed_by(to_mlflow, runs, lambda run: clients[0].set_terminated(run))


@contextmanager
def _one_line_errors(name: str) -> Iterator[None]:
    """What the package says if it cannot start a run, such as that nobody is logged in."""
    try:
        yield
    except Exception as error:
        raise LongrunError(f"{name} cannot start a run: {text_of(error)}") from error


def _required(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"to_{package} needs a package; pip install {package}") from None


def _closed_by(
    on_log: Callable[[Progress], Any], runs: dict[int, Any], finish: Callable[[Any], Any]
) -> OnLog:
    """The callback, with a function that `learn` calls at its end, however it ends.

    It finishes all runs and forgets them: nothing can be logged to them any more, and another call
    of `learn` starts new ones.
    """

    def close() -> None:
        while runs:
            finish(runs.popitem()[1])

    on_log.close = close  # type: ignore[attr-defined]
    return on_log


def numbers_of(progress: Progress) -> dict[str, float]:
    """All finite metrics, those of an evaluation included."""
    numbers = {f"train/{name}": value for name, value in progress.metrics.items()}
    numbers["train/steps_per_second"] = progress.steps_per_second
    if progress.evaluation is not None:
        for name in ("average_reward", "episode_return", "episode_length"):
            numbers[f"evaluation/{name}"] = getattr(progress.evaluation, name)
    return {name: float(value) for name, value in numbers.items() if math.isfinite(value)}


def _about(progress: Progress) -> dict[str, Any]:
    spec = progress.run.spec
    run = {"algorithm": spec.algorithm, "env": spec.env, "seed": progress.seed}
    return run | written_options(spec.configs[progress.replica])


def _name(progress: Progress) -> str:
    spec, folder = progress.run.spec, progress.run.log_dir
    return f"{folder.name if folder else f'{spec.algorithm}-{spec.env}'}-seed{progress.seed}"


def require_tensorboard(folder: object) -> None:
    """Raise InputError if the package or the folder to write to is missing."""
    if find_spec("tensorboardX") is None:
        raise InputError("tensorboard=True needs a package; pip install tensorboardX")
    if folder is None:
        raise InputError("tensorboard=True needs log_dir, the folder for its files")


class TensorBoard:
    """Writes metrics as event files below a run folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writers: dict[int, Any] = {}

    def __call__(self, events: Sequence[Progress]) -> None:
        """Add the metrics of iterations, and their evaluations."""
        for event in events:
            writer = self._writer(event.replica)
            for name, value in numbers_of(event).items():
                writer.add_scalar(name, value, event.step)

    def _writer(self, replica: int) -> Any:
        from tensorboardX import SummaryWriter

        if replica not in self._writers:
            place = self._path / "tensorboard" / f"replica_{replica}"
            self._writers[replica] = SummaryWriter(str(place))
        return self._writers[replica]

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
