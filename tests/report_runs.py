"""Runs and sweeps for the tests of the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fake_runs import fake_run
from longrun.base.files import write_json

NASTY = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1> & \"'"
"""A name that would run a script if it were not escaped."""


def report_run(
    path: Path,
    rewards: Sequence[Sequence[float]],
    env: str = "Swimmer-v5",
    first_seed: int = 0,
    iterations: int = 0,
    finished: bool = True,
    algorithm: str = "apo",
    ends: bool = True,
    **options: Any,
) -> Path:
    """A run of a replica for each list of rewards, evaluated every 1000 steps.

    In metrics.csv `gain` is the number of the iteration and `kl` is 0.5.
    """
    curves = [{1000 * k: reward for k, reward in enumerate(own, 1)} for own in rewards] or [{}]
    return fake_run(
        path,
        *curves,
        env=env,
        algorithm=algorithm,
        seeds=range(first_seed, first_seed + len(curves)),
        options=[options],
        ends=ends,
        steps=1000 * max(map(len, curves)) or 1000,
        finished=finished,
        metrics={"gain": range(1, iterations + 1), "kl": [0.5] * iterations},
    )


def report_sweep(path: Path) -> Path:
    """Three settings of APO on one task, one of them with a single seed, and two on another task.

    Each seed is a run of its own. A run has failed, and another one has not started.
    """
    rewards = {0.0: ((1, 2), (1, 4)), 0.1: ((2, 5), (2, 7)), 0.3: ((0, 1),)}
    for nu, seeds in rewards.items():
        for seed, own in enumerate(seeds):
            name = f"Swimmer-v5_apo_value_constraint={nu}_seed{seed}"
            more = {"first_seed": seed, "iterations": 20, "value_constraint": nu}
            report_run(path / "runs" / name, [own], **more)
    report_run(path / "runs" / "Hopper-v5_apo_seed0", [(3, 9)], env="Hopper-v5")
    report_run(path / "runs" / "Hopper-v5_ppo_seed0", [(3, 8)], env="Hopper-v5", algorithm="ppo")
    write_json(path / "sweep.json", {"command": ["longrun", "sweep"], "runs": {"later": {}}})
    failure = {"run": "Ant-v5_apo_seed0", "error": "NonFiniteError: the loss is NaN", "attempts": 2}
    write_json(path / "failures.json", [failure])
    return path
