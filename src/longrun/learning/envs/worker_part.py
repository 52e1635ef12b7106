"""Which environments a worker has, and the errors that name one of them."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longrun.base.errors import OWN_CODE, EnvironmentFailure, NonFiniteError, named
from longrun.learning.envs.spaces import Array

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Part:
    """Environments first <= i < last of one replica."""

    replica: int
    first: int
    last: int

    @property
    def rows(self) -> slice:
        """Where they are in an array of the replica's environments."""
        return slice(self.first, self.last)


def parts_of(worker: int, num_workers: int, replicas: int, per_replica: int) -> Iterator[Part]:
    """The worker's even and contiguous share of all replicas' environments."""
    total = replicas * per_replica
    begin, end = (total * (worker + k) // num_workers for k in (0, 1))
    for replica in range(replicas):
        first = max(begin, replica * per_replica) - replica * per_replica
        last = min(end, (replica + 1) * per_replica) - replica * per_replica
        if first < last:
            yield Part(replica, first, last)


CALLERS = (
    "longrun.learning.envs.stepper",
    "gymnasium.core",
    "gymnasium.utils.passive_env_checker",
    "gymnasium.wrappers",
)
"""Modules that call an environment's `reset` and `step`."""
FORMS = {
    "reset": "write reset(seed=None, options=None), which returns (observation, info)",
    "step": "write step(action), which returns (observation, reward, terminated, truncated, info)",
}
"""What these have to be, for messages; the names of the functions that call them contain theirs."""
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
"""Folders of code that is not the user's own."""


def failure(
    part: Part, env: int | None, where: str, error: BaseException, more: str = ""
) -> EnvironmentFailure:
    """The error, in one line, for one that an environment has raised; None is a whole VectorEnv.

    It names the type, the text, and the line of the environment's code that it came from. A
    KeyboardInterrupt is the user's, and a NonFiniteError is that of `check_finite`: they are raised
    as they are.
    """
    if isinstance(error, KeyboardInterrupt | NonFiniteError):
        raise error
    who = "the VectorEnv" if env is None else f"environment {part.first + env}"
    told = f"{named(error)}{_origin(error)}{more}"
    return EnvironmentFailure(f"{who} of replica {part.replica} failed at {where}: {told}")


def _origin(error: BaseException) -> str:
    """The innermost line of the user's own code that an error went through: " (plant.py:17)".

    If there is none, it is that of the installed package that has the environment. An error of the
    code that calls `reset` or `step` also tells what these have to take and return.
    """
    frames = [
        (frame.f_code, line, frame.f_globals.get("__name__", "").startswith(CALLERS))
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    lines = [(code.co_filename, line) for code, line, is_caller in frames if not is_caller]
    lines = [each for each in lines if not each[0].startswith(("<", *OWN_CODE))]
    text = ""
    if lines:
        own = [each for each in lines if not each[0].startswith(LIBRARIES)]
        (file, line), here = (own or lines)[-1], Path.cwd()
        shown = Path(file).relative_to(here) if Path(file).is_relative_to(here) else file
        text = f" ({shown}:{line})"
    if frames and frames[-1][2] and isinstance(error, TypeError | ValueError):
        name = frames[-1][0].co_name
        text += "".join(f"; {form}" for method, form in FORMS.items() if method in name)
    return text


def check_finite(part: Part, iteration: int, *facts: tuple[str, Array], step: int = 0) -> None:
    """A NonFiniteError that names the earliest non-finite value in arrays [T, n, ...].

    Facts are pairs of a name and an array, whose first row is of `step`. Beyond float32, which the
    learner has, a number counts as infinite: an evaluation, in float64, refuses what a rollout
    does.
    """
    found = []
    for name, values in facts:
        odd = ~(np.abs(values) <= LARGEST)
        if odd.any():
            t, i, *component = np.argwhere(odd)[0]
            found.append((t, i, component, name, values[t, i, *component]))
    if found:
        t, i, component, name, value = min(found, key=lambda odd: odd[0])
        which = f" (component {component[0]})" if component else ""
        raise NonFiniteError(
            f"environment {part.first + i} of replica {part.replica} returned a non-finite"
            f" {name} of {value}{which} at step {step + t} of iteration {iteration}"
        )
