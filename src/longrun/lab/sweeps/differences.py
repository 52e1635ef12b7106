"""How a run that is in a sweep's folder differs from the one that is asked for, as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from longrun.base.files import as_read
from longrun.lab.sweeps.plan import PlannedRun
from longrun.learning.options.config import FEWEST_ITERATIONS
from longrun.learning.options.config_options import written_options


def may_grow(run: PlannedRun, steps: int) -> bool:
    """Whether a run of `steps` can be extended to this one."""
    return 0 < steps < run.steps and all(c.may_grow(steps, run.steps) for c in run.configs())


def refusal(
    there: PlannedRun,
    here: PlannedRun | None,
    runs: Sequence[PlannedRun],
    preset_option: str = "--preset",
) -> str:
    """Why a run of the folder is not `here`, extended; empty if it is.

    there: a run of one replica; here: the run by its identity or name, if there is one; runs: all;
    preset_option: what the command that was given calls a preset.
    """
    presets = list({run.preset for run in runs})
    if there.preset not in presets and len(presets) == 1:
        return f"has {preset_hint(there.preset, presets[0], preset_option)}"
    if here is None:
        return "is not part of this one"
    grown = here.steps if may_grow(here, there.steps) else there.steps
    single = dataclasses.replace(there, steps=grown)
    if not (why := difference("", _comparable(single), _comparable(here))):
        return ""
    longer = why.startswith("steps=") and here.steps > there.steps
    return f"has {why}{_why_not_longer(here) if longer else ''}"


def _why_not_longer(run: PlannedRun) -> str:
    if any(config.learning_rate_decay for config in run.configs()):
        return " (more steps need --no-learning-rate-decay from the start)"
    return f" (lambda adapts in runs of {FEWEST_ITERATIONS} iterations or more)"


def preset_hint(there: str, here: str, option: str = "--preset") -> str:
    """What to do about another preset."""
    return f"preset={there}, not {here} ({option} {there} extends it)"


def _comparable(run: PlannedRun) -> Any:
    """The run of one replica without its name, with all its options, wherever they come from."""
    [config] = run.configs()
    content = run.as_json() | {"name": None, "fixed": None, "replicas": run.seeds}
    return as_read(content | {"options": written_options(config)})


def difference(name: str, there: Any, here: Any) -> str:
    """The first difference as text; empty if there is none."""
    if isinstance(there, dict) and isinstance(here, dict):
        inner = (difference(k, there.get(k), here.get(k)) for k in {**here, **there})
        return next(filter(None, inner), "")
    return f"{name}={there}, not {here}" if there != here else ""
