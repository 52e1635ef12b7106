"""Points to try that are not a grid: drawn at random, or chosen by Optuna from results so far."""

from __future__ import annotations

import dataclasses
import itertools
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from longrun.experiments.sweeps.grids import Options, Range, written
from longrun.experiments.sweeps.plan import Block, Run, run_name, runs_of
from longrun.train.files import read_json

METRIC = "average_reward"
"""What a search maximises: the mean over seeds of the last evaluation's reward per step."""


@dataclass(frozen=True)
class Space:
    """What may be tried; each name is an option of the algorithm."""

    lists: Mapping[str, Sequence[Any]]
    ranges: Mapping[str, Range]

    def draw(self, count: int, seed: int) -> list[Options]:
        """Independent points, the same for the same seed."""
        rng = np.random.default_rng(seed)
        return [
            {name: values[int(rng.integers(len(values)))] for name, values in self.lists.items()}
            | {name: numbers.draw(rng) for name, numbers in self.ranges.items()}
            for _ in range(count)
        ]


@dataclass(frozen=True)
class Study:
    """One search: its fixed part and its space, in a form that JSON keeps."""

    block: Block
    space: Space
    trials: int

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Study:
        ranges = {n: Range(**r) for n, r in content["space"]["ranges"].items()}
        space = Space(content["space"]["lists"], ranges)
        return cls(Block(**content["block"]), space, content["trials"])

    @property
    def name(self) -> str:
        return f"{self.block.algorithm} {self.block.env}"

    def runs(self, trial: int, options: Options) -> list[Run]:
        """All seeds of one trial, named after its number."""
        fixed = self.block.settings[0]
        block = dataclasses.replace(self.block, settings=[{**fixed, **options}])
        about = (block.env, block.algorithm, block.preset)
        return [
            dataclasses.replace(
                run, name=run_name(*about, {"trial": f"{trial:03}"}, run.name.rpartition("_")[2])
            )
            for run in runs_of([block])
        ]


class OptunaSearch:
    """Asks Optuna for points and tells it what they came to; its journal lies in the sweep."""

    def __init__(self, folder: Path, studies: Sequence[Study]) -> None:
        self._folder = folder
        self._studies = {study.name: study for study in studies}
        self._optuna = _import_optuna()
        self._under_way = {name: self._load(study) for name, study in self._studies.items()}
        self._pending: dict[tuple[str, int], dict[str, Run]] = {}
        self._failed: set[tuple[str, int]] = set()
        self._owner: dict[str, tuple[str, int]] = {}
        for name, study in self._under_way.items():
            for trial in study.get_trials(deepcopy=False):
                if not trial.state.is_finished():  # it was running when the sweep was stopped
                    self._expect(name, trial.number, self._read(name, trial.params))

    def suggest(self, count: int) -> list[Run]:
        runs: list[Run] = []
        for name in itertools.cycle(self._studies):
            open_studies = [n for n in self._studies if self._asked(n) < self._studies[n].trials]
            if not open_studies or len(runs) >= count:
                return runs
            if name in open_studies:
                trial = self._under_way[name].ask()
                options = self._options(self._studies[name].space, trial)
                runs += self._expect(name, trial.number, options)
        return runs

    def heard(self, run: Run, failed: bool) -> None:
        owner = self._owner.pop(run.name, None)
        if owner is None:
            return
        if failed:
            self._failed.add(owner)
        pending = self._pending[owner]
        if any(name in self._owner for name in pending):
            return
        name, number = owner
        if owner in self._failed:
            state = self._optuna.trial.TrialState.FAIL
            self._under_way[name].tell(number, state=state)
        else:
            self._under_way[name].tell(number, self._score(pending.values()))

    def best(self) -> list[tuple[str, dict[str, Any], float]]:
        """For each study that has a result: its name, the best options, their score."""
        return [
            (name, self._read(name, study.best_params), study.best_value)
            for name, study in self._under_way.items()
            if any(t.state.name == "COMPLETE" for t in study.get_trials(deepcopy=False))
        ]

    def _asked(self, name: str) -> int:
        return len(self._under_way[name].get_trials(deepcopy=False))

    def _expect(self, name: str, number: int, options: Options) -> list[Run]:
        runs = self._studies[name].runs(number, options)
        self._pending[name, number] = {run.name: run for run in runs}
        self._owner |= {run.name: (name, number) for run in runs}
        return runs

    def _score(self, runs: Any) -> float:
        finals = [
            replica[METRIC]
            for run in runs
            for replica in read_json(self._folder / "runs" / run.name / "summary.json")["final"]
        ]
        return float(np.mean(finals))

    def _load(self, study: Study) -> Any:
        optuna = self._optuna
        journal = optuna.storages.journal.JournalFileBackend(str(self._folder / "optuna.journal"))
        return optuna.create_study(
            study_name=study.name,
            storage=optuna.storages.JournalStorage(journal),
            sampler=optuna.samplers.TPESampler(seed=study.block.seeds[0]),
            direction="maximize",
            load_if_exists=True,
        )

    def _options(self, space: Space, trial: Any) -> dict[str, Any]:
        for name, values in space.lists.items():
            trial.suggest_categorical(name, [written(value) for value in values])
        for name, r in space.ranges.items():
            if r.whole:
                trial.suggest_int(name, int(r.low), int(r.high), log=r.log)
            else:
                trial.suggest_float(name, r.low, r.high, log=r.log)
        return _options_of(space, trial.params)

    def _read(self, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return _options_of(self._studies[name].space, params)


def _options_of(space: Space, params: Mapping[str, Any]) -> dict[str, Any]:
    """Optuna knows listed values by their text; here they are values again."""
    listed = {n: {written(v): v for v in values} for n, values in space.lists.items()}
    return {n: listed[n][v] if n in listed else v for n, v in params.items()}


def _import_optuna() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import optuna
    except ImportError:
        raise ValueError(
            "--search optuna needs a package; pip install 'longrun[experiments]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def read_studies(path: Path) -> list[Study]:
    """Those of a sweep's folder; none where it is no search."""
    return [Study.from_json(study) for study in read_json(path / "sweep.json").get("search", [])]


def written_studies(studies: Sequence[Study]) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = json.loads(json.dumps([study.as_json() for study in studies]))
    return content
