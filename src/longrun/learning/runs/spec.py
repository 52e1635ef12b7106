"""The one description of a run: what config.json, sweep.json and a worker's order hold.

Python and the command line make a `RunSpec`, `train/training.py` follows it, and two runs are the
same when their descriptions are equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from longrun.base.checks import MOST_STEPS, STEP_TIMEOUT, checked_timeout, known, whole_number
from longrun.base.errors import FolderError, InputError
from longrun.learning.options.config import Config, kind_of
from longrun.learning.options.config_options import (
    differing,
    require_all_options,
    saved_config,
    written_options,
)
from longrun.learning.options.presets import DEFAULT, PRESETS

FORMAT = 4
"""Version of the files that hold a description: config.json, sweep.json and checkpoint.json."""
MOST_ITERATIONS = 2**31 - 1
"""Most iterations of a run: they are counted in 32 bits."""
LONGEST_NAME = 100
ENTRIES: dict[str, Any] = {
    "env": str,
    "steps": int,
    "begins": int,
    "eval_every": int | None,
    "eval_steps": int,
    "preset": str,
    "name": str | None,
    "num_workers": int | None,
    "step_timeout": float | int,
}
"""Fields of a description that stand in a file as they are, and their types."""
OTHERS: dict[str, Any] = {"algorithm": str, "options": dict, "replicas": list}
"""The other entries of a file."""
DEFAULT_STEPS = 1_000_000
DEFAULT_EVAL_STEPS = 10_000


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What is trained: replicas on one environment, which differ in seed and numeric options."""

    env: str
    """the name of the environment"""
    configs: tuple[Config, ...]
    """one for each replica"""
    seeds: tuple[int, ...]
    """one for each replica"""
    steps: int = DEFAULT_STEPS
    """environment steps of each replica, `begins` included"""
    begins: int = 0
    """steps that were done when the training began, over which the learning rate falls"""
    eval_every: int | None = None
    """steps between evaluations; None for up to 20 of them, 0 for none"""
    eval_steps: int = DEFAULT_EVAL_STEPS
    """steps of an evaluation, shared by up to 10 environments"""
    preset: str = DEFAULT
    """what the configurations were made from, for labels"""
    name: str | None = None
    """what tables and legends call the run"""
    num_workers: int | None = field(default=None, compare=False)
    """processes that simulate Gymnasium environments; None for one on each core"""
    step_timeout: float = field(default=STEP_TIMEOUT, compare=False)
    """seconds that a worker's request may go without an environment step; 0 for no limit"""

    def __post_init__(self) -> None:
        checked = {
            "configs": tuple(self.configs),
            "seeds": tuple(whole_number("seed", seed) for seed in self.seeds),
            "steps": whole_number("steps", self.steps, 0, MOST_STEPS),
            "begins": whole_number("begins", self.begins, 0, MOST_STEPS),
            "eval_every": _whole_or_none("eval_every", self.eval_every),
            "eval_steps": whole_number("eval_steps", self.eval_steps, 1),
            "preset": known("preset", self.preset, PRESETS),
            "name": None if self.name is None else run_name(self.name),
            "num_workers": _whole_or_none("num_workers", self.num_workers),
            "step_timeout": checked_timeout(self.step_timeout),
        }
        for entry, value in checked.items():
            object.__setattr__(self, entry, value)
        if self.iterations > MOST_ITERATIONS:
            raise InputError(
                f"steps={self.steps} are {self.iterations:,} iterations of {self.per_iteration}"
                f" steps; give at most {MOST_ITERATIONS * self.per_iteration} steps, or more in an"
                " iteration"
            )

    @property
    def algorithm(self) -> str:
        return self.configs[0].algorithm

    @property
    def per_iteration(self) -> int:
        """Steps of one iteration of one replica."""
        return self.configs[0].steps_per_iteration

    @property
    def iterations(self) -> int:
        """Iterations that every replica has done when the run ends."""
        return -(-self.steps // self.per_iteration)

    @property
    def first_iteration(self) -> int:
        """Iterations that were done when the training began."""
        return self.begins // self.per_iteration

    @property
    def evaluation_interval(self) -> int:
        """Iterations between evaluations; 0 for none.

        By default evaluations take a quarter of all steps at most.
        """
        if self.eval_every is not None:
            return -(-self.eval_every // self.per_iteration)
        twentieth = -(-(self.iterations - self.first_iteration) // 20)
        return max(twentieth, 3 * self.eval_steps // self.per_iteration)

    def evaluates(self, iteration: int) -> bool:
        """Whether an evaluation follows once `iteration` iterations are done."""
        every = self.evaluation_interval
        return every > 0 and (iteration % every == 0 or iteration == self.iterations)

    def progress(self, iteration: int) -> float:
        """The fraction of the training that is done before an iteration, for the learning rate."""
        return (iteration - self.first_iteration) / (self.iterations - self.first_iteration)

    def may_become(self, other: RunSpec) -> bool:
        """Whether this run, given more steps, learns what the other one does from the start."""
        if dataclasses.replace(self, steps=other.steps) != other:
            return False
        grows = self.steps < other.steps
        return not grows or all(c.may_grow(self.steps, other.steps) for c in self.configs)

    def as_json(self) -> dict[str, Any]:
        """The description for a file: options of the first replica, and in what others differ."""
        names = differing(self.configs)
        return {
            "format": FORMAT,
            "algorithm": self.algorithm,
            **{name: getattr(self, name) for name in ENTRIES},
            "options": written_options(self.configs[0]),
            "replicas": [
                {"seed": seed, **{name: getattr(config, name) for name in names}}
                for seed, config in zip(self.seeds, self.configs, strict=True)
            ],
        }

    @classmethod
    def from_json(cls, content: Any, file: str) -> RunSpec:
        """The description that a file holds. Raises FolderError, which names the file."""
        _require_description(content, file)
        algorithm, options, replicas = (content[name] for name in OTHERS)
        try:
            kind_of(algorithm)
            require_all_options(file, algorithm, options)
            return cls(
                configs=tuple(
                    saved_config(algorithm, options | {n: v for n, v in r.items() if n != "seed"})
                    for r in replicas
                ),
                seeds=tuple(replica["seed"] for replica in replicas),
                **{name: content.get(name) for name in ENTRIES},
            )
        except FolderError:
            raise
        except InputError as error:
            raise FolderError(f"{file} is damaged: {error}") from None


def _require_description(content: Any, file: str) -> None:
    """Raise FolderError unless all entries of a description are there, with their types."""
    require_entries(content, {}, file)
    if content.get("format") != FORMAT:
        raise FolderError(
            f"{file} is of another version of longrun (format {content.get('format')}, not"
            f" {FORMAT}); train it again"
        )
    require_entries(content, ENTRIES | OTHERS, file)
    seeds = [r.get("seed") if isinstance(r, dict) else None for r in content["replicas"]]
    if not seeds or not all(isinstance(seed, int) for seed in seeds):
        raise FolderError(f"{file} is damaged: it has no valid 'replicas', each with a seed")


def require_entries(content: Any, kinds: Mapping[str, Any], file: str) -> None:
    """Raise FolderError, with the file's name, unless it has entries of these types."""
    if not isinstance(content, dict):
        raise FolderError(f"{file} is damaged: it is not an object")
    for name, kind in kinds.items():
        value = content.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise FolderError(f"{file} is damaged: it has no valid '{name}'")


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The first difference of two descriptions in JSON, as "steps=100, not 200"; "" without one."""
    for name in {**here, **there}:
        old, new = there.get(name), here.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if inner := difference(old, new):
                return inner
        elif old != new:
            return f"{name}={old}, not {new}"
    return ""


def run_name(name: object) -> str:
    """The user's name of a run, for tables and legends. Raises InputError if it is not one."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
        raise InputError(f"name={name!r} must be a line of 1 to {LONGEST_NAME} characters")
    return name


def _whole_or_none(name: str, value: Any) -> int | None:
    return None if value is None else whole_number(name, value)
