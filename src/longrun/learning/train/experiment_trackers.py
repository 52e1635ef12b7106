"""Metrics for TensorBoard, Weights & Biases and MLflow, imported when they are first needed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from longrun.base.errors import InputError, LongrunError, text_of
from longrun.learning.options.config_options import written_options
from longrun.learning.train.progress import OnLog, Progress


def to_wandb(project: str, **settings: Any) -> OnLog:
    """Log metrics and evaluations to Weights & Biases: a run for each replica and call of `learn`.

    `settings` go to `wandb.init`. Needs the extra `wandb`.
    """
    wandb = _required("wandb")

    def start(progress: Progress) -> Any:
        usual = {"name": _name(progress), "config": _about(progress), "reinit": "create_new"}
        return wandb.init(project=project, **usual | settings)

    return _tracker(
        "Weights & Biases",
        start,
        log=lambda run, numbers, step: run.log(numbers, step=step),
        finish=lambda run: run.finish(),
    )


def to_mlflow(experiment: str) -> OnLog:
    """Log metrics and evaluations to MLflow: a run for each replica and call of `learn`.

    MLFLOW_TRACKING_URI says where; without it MLflow writes to its default place. Needs the extra
    `mlflow`.
    """
    mlflow = _required("mlflow")

    def start(progress: Progress) -> Any:
        client = mlflow.MlflowClient()
        found = client.get_experiment_by_name(experiment)
        place = client.create_experiment(experiment) if found is None else found.experiment_id
        run = client.create_run(place, run_name=_name(progress)).info.run_id
        for name, value in _about(progress).items():
            client.log_param(run, name, value)
        return client, run

    def log(started: Any, numbers: dict[str, float], step: int) -> None:
        client, run = started
        now, make = int(time.time() * 1000), mlflow.entities.Metric
        client.log_batch(run, metrics=[make(name, x, now, step) for name, x in numbers.items()])

    return _tracker(
        "MLflow", start, log, finish=lambda started: started[0].set_terminated(started[1])
    )


def to_tensorboard() -> OnLog:
    """Write metrics and evaluations as event files below the run folder."""

    def start(progress: Progress) -> Any:
        from tensorboardX import SummaryWriter

        assert progress.run.log_dir is not None
        place = progress.run.log_dir / "tensorboard" / f"replica_{progress.replica}"
        return SummaryWriter(str(place))

    def log(writer: Any, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)

    return _tracker("TensorBoard", start, log, finish=lambda writer: writer.close())


def require_tensorboard(folder: object) -> None:
    """Raise InputError if the package or the folder to write to is missing."""
    if find_spec("tensorboardX") is None:
        raise InputError("tensorboard=True needs a package; pip install tensorboardX")
    if folder is None:
        raise InputError("tensorboard=True needs log_dir, the folder for its files")


def _required(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"to_{package} needs a package; pip install {package}") from None


def _tracker(
    name: str,
    start: Callable[[Progress], Any],
    log: Callable[[Any, dict[str, float], int], object],
    finish: Callable[[Any], object],
) -> OnLog:
    """A callback that starts a tracker's run for each replica, logs to it, and finishes it.

    What the package says if it cannot start a run, such as that nobody is logged in, becomes one
    line. Another call of `learn` starts new runs.
    """
    runs: dict[int, Any] = {}

    def on_log(progress: Progress) -> None:
        if progress.replica not in runs:
            try:
                runs[progress.replica] = start(progress)
            except Exception as error:
                raise LongrunError(f"{name} cannot start a run: {text_of(error)}") from error
        log(runs[progress.replica], numbers_of(progress), progress.step)

    def close() -> None:
        while runs:
            finish(runs.popitem()[1])

    on_log.close = close  # type: ignore[attr-defined]  # `learn` calls it, however it ends
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
