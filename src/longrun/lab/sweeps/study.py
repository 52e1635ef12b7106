"""Searches as sweep.json describes them: the values to choose from, and the runs of a trial."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from longrun.base.errors import FolderError
from longrun.base.files import as_read
from longrun.lab.sweeps.differences import difference, preset_hint
from longrun.lab.sweeps.grids import Options, Range, written
from longrun.lab.sweeps.objective import Objective
from longrun.lab.sweeps.plan import Block, PlannedRun, run_name, runs_of, together
from longrun.lab.sweeps.sweep_folder import read_sweep
from longrun.learning.envs.native.lookup import is_native
from longrun.learning.options.config_options import make_config

MOST_CORNERS = 1000
"""Most combinations that are checked before a search starts."""


@dataclass(frozen=True)
class Space:
    """Values to choose from; each name is an option of the algorithm."""

    lists: Mapping[str, Sequence[Any]]
    ranges: Mapping[str, Range]

    def draw(self, count: int, seed: int) -> list[Options]:
        """Distinct random points, the same for the same seed; fewer if the space has fewer."""
        rng = np.random.default_rng(seed)
        points: dict[str, Options] = {}
        for _ in range(100 * count):
            point = {n: values[int(rng.integers(len(values)))] for n, values in self.lists.items()}
            point |= {n: numbers.draw(rng) for n, numbers in self.ranges.items()}
            points.setdefault(repr(point), point)
            if len(points) == count:
                break
        return list(points.values())

    def corners(self) -> Iterator[Options]:
        """Combinations of listed values and ends of ranges; if these are valid, all points are."""
        axes = {n: list(values) for n, values in self.lists.items()}
        for name, r in self.ranges.items():
            axes[name] = [int(r.low), int(r.high)] if r.whole else [r.low, r.high]
        for values in itertools.islice(itertools.product(*axes.values()), MOST_CORNERS):
            yield dict(zip(axes, values, strict=True))


@dataclass(frozen=True)
class Study:
    """A search of one algorithm, for one environment or for one setting on several."""

    block: Block
    """The search's block of runs; its environment is the first of `envs`."""
    space: Space
    trials: int
    batched: bool = False
    """Whether all seeds of a trial on a JAX-native environment are one run."""
    objective: Objective = field(default_factory=Objective)

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Study:
        ranges = {n: Range(**r) for n, r in content["space"]["ranges"].items()}
        return cls(
            Block(**content["block"]),
            Space(content["space"]["lists"], ranges),
            content["trials"],
            content["batched"],
            Objective(**content["objective"]),
        )

    @property
    def envs(self) -> list[str]:
        return list(self.objective.references) or [self.block.env]

    @property
    def name(self) -> str:
        return " ".join([self.block.algorithm, *self.envs])

    def runs(self, trial: int, options: Options) -> list[PlannedRun]:
        """The runs of one trial, named after its number."""
        block = dataclasses.replace(self.block, settings=[options])
        runs = runs_of([dataclasses.replace(block, env=env) for env in self.envs])
        return [
            dataclasses.replace(run, name=_trial_name(run, trial))
            for run in (together(runs) if self.batched else runs)
        ]

    def runs_to_come(self, trials: int) -> dict[str, tuple[int, int]]:
        """The number of runs of so many trials on each environment, and their steps."""
        seeds = len(self.block.seeds)
        return {
            env: (
                trials * (1 if self.batched and is_native(env) else seeds),
                trials * seeds * self.block.steps,
            )
            for env in self.envs
        }

    def preset_point(self) -> dict[str, Any]:
        """The values that the preset has, for names of the space that contain them."""
        block, point = self.block, {}
        config = make_config(block.algorithm, block.preset, **block.fixed)
        for name in [*self.space.lists, *self.space.ranges]:
            value = as_read(getattr(config, name))
            if name in self.space.ranges:
                inside = self.space.ranges[name].low <= value <= self.space.ranges[name].high
            else:
                inside = value in self.space.lists[name]
            if inside:
                point[name] = value
        return point


def _trial_name(run: PlannedRun, trial: int) -> str:
    last = run.name.rpartition("_")[2]
    return run_name(run.env, run.algorithm, run.preset, {"trial": f"{trial:03}"}, last)


def read_studies(path: Path) -> list[Study]:
    """The studies of a sweep's folder; none if it is not a search. Raises FolderError."""
    try:
        return [Study.from_json(study) for study in read_sweep(path).get("search", [])]
    except (KeyError, TypeError, AttributeError) as error:
        raise FolderError(f"'{path / 'sweep.json'}' is damaged: {error!r}") from None


def written_studies(studies: Sequence[Study]) -> list[dict[str, Any]]:
    """The studies as sweep.json holds them."""
    content: list[dict[str, Any]] = as_read([study.as_json() for study in studies])
    return content


def search_difference(there: Sequence[Study], here: Sequence[Study]) -> str:
    """How the studies of a folder differ from those requested, as a clause that begins with "it".

    They must differ in something.
    """
    if not there:
        return "it is not a search"
    presets = [studies[0].block.preset for studies in (there, here)]
    if presets[0] != presets[1]:
        return f"it has {preset_hint(*presets)}"
    found, wanted = ({study.name: study for study in studies} for studies in (there, here))
    if missing := [name for name in wanted if name not in found]:
        return f"it has no search of {missing[0]}"
    if more := [name for name in found if name not in wanted]:
        return f"it has a search of {more[0]}, too"
    contents = ({n: _comparable(s) for n, s in studies.items()} for studies in (found, wanted))
    why = difference("", *contents)
    return f"it has {why}" if why else "it has its searches in another order"


def _comparable(study: Study) -> Any:
    """What defines a study besides its name and preset; values as the command line has them."""
    block, space = study.block, study.space
    lists = {name: ",".join(map(written, values)) for name, values in space.lists.items()}
    content = {
        "trials": study.trials,
        "steps": block.steps,
        "seeds": block.seeds,
        "evaluation": block.evaluation,
        "fixed": block.fixed,
        "space": lists | {name: str(numbers) for name, numbers in space.ranges.items()},
        "objective": dataclasses.asdict(study.objective),
        "batched": study.batched,
    }
    return as_read(content)
