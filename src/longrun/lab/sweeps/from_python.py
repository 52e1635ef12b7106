"""Sweeps from Python: the same as `longrun sweep`, as one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from longrun.base.checks import STEP_TIMEOUT, whole_number
from longrun.base.errors import LongrunError
from longrun.lab.results import Results, read_results
from longrun.lab.sweeps.run_sweep import create_sweep, finished_folders, train_sweep
from longrun.learning.options.presets import DEFAULT
from longrun.learning.runs.spec import DEFAULT_EVAL_STEPS

Names = str | Sequence[str]


def sweep(
    algorithms: Names,
    envs: Names,
    steps: int,
    out: str | Path,
    *,
    seeds: int | Sequence[int] = 1,
    grid: Mapping[str, Sequence[Any]] | None = None,
    ranges: Mapping[str, Sequence[Any]] | None = None,
    search: str = "grid",
    trials: int | None = None,
    metric: str | None = None,
    references: Mapping[str, float] | None = None,
    preset: str = DEFAULT,
    eval_every: int | None = None,
    eval_steps: int = DEFAULT_EVAL_STEPS,
    workers: int | None = None,
    ray: str | None = None,
    retries: int = 1,
    quiet: bool = False,
    step_timeout: float = STEP_TIMEOUT,
    **options: Any,
) -> Results:
    """Train several seeds, settings, environments and algorithms, as `longrun sweep` does.

    The same call resumes a sweep that was stopped; with more seeds, values or steps it extends it.
    More steps are an error where the learning rate decays, as in the default preset: a run's whole
    course depends on its length.

    Parameters
    ----------
    algorithms
        One or several of "apo", "ppo", "atrpo", "trpo".
    envs
        Names of environments, one or several; worker processes make them. One of your own is
        'module:Id', where the module registers the id.
    steps
        Environment steps of each run.
    out
        The sweep's folder.
    seeds
        How many seeds, from 0 on, or a list of them.
    grid
        Values of options: `{"gae_lambda": [0.9, 0.95]}` trains every combination. Algorithms
        without an option ignore it; "ppo.gae_lambda" is for PPO alone.
    ranges
        Intervals of numeric options, `{"learning_rate": (1e-5, 1e-3, "log")}`, for a search.
    search, trials
        "grid"; "ablation", which trains the preset, and each value of `grid` changed alone; or
        `trials` points by "random" or "optuna".
    metric, references
        What Optuna maximises: the final "average_reward" (default), "episode_return" or
        "episode_average_reward". Each algorithm and environment has its own search; with
        `{"Ant-v5": 4079, ...}` for each environment one setting is searched for all of them, and
        scored by the interquartile mean of score / |reference| over environments and seeds.
    preset
        A named set of options: "tuned" (the default), "paper" or "queueing".
    workers, ray, retries
        Runs at once (by default one for each core), the address of a Ray cluster, retries of a
        failed run.
    step_timeout
        Seconds after which a run whose environment does not return is retried and has failed; 0 for
        no limit.
    options
        Options of all runs; they change those of the preset.

    Returns
    -------
    results
        As `read_results(out)`; `.to_pandas()` is a data frame. Raises LongrunError, after all
        others are done, if runs have failed.
    """
    names = [algorithms] if isinstance(algorithms, str) else algorithms
    folder = create_sweep(
        Path(out),
        algorithms=[name.lower() for name in names],
        envs=envs if isinstance(envs, list | tuple) else [envs],
        steps=steps,
        seeds=seeds if isinstance(seeds, Sequence) else range(whole_number("seeds", seeds, 1)),
        preset=preset,
        options=options,
        grid=grid or {},
        ranges=ranges or {},
        search=search,
        trials=trials,
        metric=metric,
        references=references or {},
        eval_every=eval_every,
        eval_steps=eval_steps,
    )
    outcome, _ = train_sweep(folder, workers, ray, retries, quiet, step_timeout)
    if outcome.failures:
        first, count = outcome.failures[0], len(outcome.failures)
        raise LongrunError(
            f"{count} of {count + len(outcome.finished)} runs in '{folder.path}' failed,"
            f" {first.run} with: {first.error}; the same call tries them again"
        )
    return read_results(finished_folders(folder, outcome))
