"""Sweeps from Python: the same as `longrun sweep`, as one function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from longrun.base.checks import STEP_TIMEOUT, known, whole_number
from longrun.base.errors import InputError, LongrunError
from longrun.lab.results import Results, read_results
from longrun.lab.sweeps.closing_table import finished_folders
from longrun.lab.sweeps.grids import Range, checked_range
from longrun.lab.sweeps.messages import one_line
from longrun.lab.sweeps.plan import require_known
from longrun.lab.sweeps.request import Request
from longrun.lab.sweeps.run_sweep import create_sweep, train_sweep
from longrun.lab.sweeps.scheduler import Outcome
from longrun.learning.options.config import ALGORITHMS
from longrun.learning.options.config_options import own_networks
from longrun.learning.options.presets import DEFAULT

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
    eval_steps: int | None = None,
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
    with _words_of_python():
        request = Request(
            algorithms=[known("algorithm", a.lower(), ALGORITHMS) for a in _names(algorithms)],
            envs=_env_names(envs),
            steps=_without_numpy(steps),
            seeds=_seeds(seeds),
            preset=preset,
            fixed={name: _plain(name, value) for name, value in options.items()},
            lists={name: _values(name, values) for name, values in (grid or {}).items()},
            ranges={name: _range(name, given) for name, given in (ranges or {}).items()},
            search=search,
            trials=_without_numpy(trials),
            metric=metric,
            references=_references(references or {}),
            evaluation={
                name: _without_numpy(value)
                for name, value in (("eval_every", eval_every), ("eval_steps", eval_steps))
                if value is not None
            },
        )
        require_known(request.algorithms, list(options))
        folder = create_sweep(request, Path(out))
        outcome, _ = train_sweep(folder, workers, ray, retries, quiet, step_timeout)
    _require_done(outcome, folder.path)
    return read_results(finished_folders(folder, outcome))


def _require_done(outcome: Outcome, path: Path) -> None:
    if not outcome.failures:
        return
    first, count = outcome.failures[0], len(outcome.failures)
    raise LongrunError(
        f"{count} of {count + len(outcome.finished)} runs in '{path}' failed, {first.run} with:"
        f" {one_line(first.error)}; the same call tries them again"
    )


def _names(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _env_names(envs: Names) -> list[str]:
    found: list[Any] = _names(envs) if isinstance(envs, str | list | tuple) else [envs]
    for env in found:
        if not isinstance(env, str):
            raise InputError(
                f"envs={env!r} must be a name, such as 'Swimmer-v5' or 'module:Id': worker"
                " processes make the environments"
            )
    return found


def _seeds(seeds: int | Sequence[int]) -> Sequence[int]:
    if isinstance(seeds, Sequence):
        found = [whole_number("seeds", seed) for seed in seeds]
        if not found or len(set(found)) < len(found):
            raise InputError(f"seeds={list(seeds)} must be different seeds, one or more")
        return found
    return range(whole_number("seeds", seeds, 1))


def _references(references: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = _without_numpy(references)
    for env, reference in found.items():
        if isinstance(reference, bool) or not isinstance(reference, int | float):
            raise InputError(f"references[{env!r}]={reference!r} must be a number")
    return found


def _values(name: str, values: Sequence[Any]) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
        raise InputError(f"grid[{name!r}]={values!r} must be a list of values")
    found = [_plain(name, value) for value in values]
    if len({repr(value) for value in found}) < len(found):
        raise InputError(f"grid[{name!r}]={values!r} lists a value twice; list each once")
    return found


def _plain(name: str, value: Any) -> Any:
    """A value as JSON has it; functions cannot be sent to other processes."""
    if own_networks({name: value}):
        raise InputError(f"{name} is a function, which a sweep cannot send to its processes")
    return _without_numpy(value)


def _without_numpy(value: Any) -> Any:
    """NumPy's numbers as Python's, arrays and tuples as lists, also inside: JSON has no others."""
    if isinstance(value, Mapping):
        return {name: _without_numpy(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_numpy(each) for each in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _range(name: str, given: Sequence[Any]) -> Range:
    parts = _without_numpy(given)
    if not isinstance(parts, list) or len(parts) not in (2, 3) or parts[2:] not in ([], ["log"]):
        raise InputError(f"ranges[{name!r}]={given!r} must be (low, high) or (low, high, 'log')")
    return checked_range(name, f"ranges[{name!r}]", parts[0], parts[1], len(parts) == 3)


@contextmanager
def _words_of_python() -> Iterator[None]:
    """Errors name arguments, not flags of the command line."""
    try:
        yield
    except InputError as error:
        text = str(error)
        if "longrun sweep" not in text:
            text = re.sub(r"--([a-z][a-z-]*)", lambda flag: _argument(flag[1]), text)
        raise type(error)(text) from None


def _argument(flag: str) -> str:
    return {"env": "envs", "range": "ranges", "reference": "references"}.get(
        flag, flag.replace("-", "_")
    )
