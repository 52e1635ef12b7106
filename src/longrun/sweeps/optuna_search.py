"""Searches: options drawn at random, or suggested by Optuna from the results so far."""

from __future__ import annotations

import dataclasses
import itertools
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from longrun.errors import InputError
from longrun.files import read_json, write_bytes
from longrun.sweeps.grids import Options, Range, written
from longrun.sweeps.plan import Block, PlannedRun, run_name, runs_of, together
from longrun.sweeps.sweep_folder import SweepFolder
from longrun.sweeps.sweep_json import read_sweep

METRIC = "average_reward"
"""What a search maximises: the mean over seeds of the last evaluation's average reward."""
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
    """A search for one algorithm on one environment, as sweep.json describes it."""

    block: Block
    space: Space
    trials: int
    batched: bool = False
    """Whether all seeds of a trial are one run."""

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Study:
        ranges = {n: Range(**r) for n, r in content["space"]["ranges"].items()}
        space = Space(content["space"]["lists"], ranges)
        return cls(Block(**content["block"]), space, content["trials"], content["batched"])

    @property
    def name(self) -> str:
        return f"{self.block.algorithm} {self.block.env}"

    def runs(self, trial: int, options: Options) -> list[PlannedRun]:
        """The runs of one trial, named after its number."""
        block = dataclasses.replace(self.block, settings=[options])
        about = (block.env, block.algorithm, block.preset, {"trial": f"{trial:03}"})
        runs = runs_of([block])
        return [
            dataclasses.replace(run, name=run_name(*about, run.name.rpartition("_")[2]))
            for run in (together(runs) if self.batched else runs)
        ]


class OptunaSearch:
    """Asks Optuna for points and passes it their scores; its journal is in the sweep's folder.

    A trial without a score stays open: a failed one gets its score when its runs succeed later, and
    one that was interrupted is resumed. Only a trial that was not fully written is replaced.
    """

    def __init__(self, folder: SweepFolder, studies: Sequence[Study]) -> None:
        self._folder = folder
        self._studies = {study.name: study for study in studies}
        self._optuna = import_optuna()
        self.optuna_studies = {name: self._open(study) for name, study in self._studies.items()}
        """Optuna's own record of each study."""
        self._trial_of: dict[str, tuple[str, int]] = {}
        """The trial of each run that is not finished."""
        self._runs_of: dict[tuple[str, int], list[PlannedRun]] = {}
        there = {run.name for run in folder.runs}
        open_runs = [run for name in self._studies for run in self._open_runs(name)]
        self._unwritten = [run for run in open_runs if run.name not in there]
        """Runs that the journal has and sweep.json lacks: the sweep was killed in between."""

    def suggest(self, count: int) -> list[PlannedRun]:
        """About so many further runs, taken from the studies in turn."""
        runs, self._unwritten = self._unwritten, []
        for name in itertools.cycle(self._studies):
            wanting = [n for n in self._studies if self._unasked(n) > 0]
            if not wanting or len(runs) >= count:
                break
            if name in wanting:
                runs += self._ask(name)
        return runs

    def finished(self, run: PlannedRun) -> None:
        """Pass the trial's score to Optuna if this was the last of its runs."""
        trial = self._trial_of.pop(run.name, None)
        if trial is None or trial in self._trial_of.values():
            return
        score = self.score(self._runs_of[trial])
        if score is not None:
            self.optuna_studies[trial[0]].tell(trial[1], score)

    def to_come(self) -> dict[str, tuple[int, int]]:
        """For each environment the runs that have not been suggested yet, and their steps."""
        found: dict[str, tuple[int, int]] = {}
        for name, study in self._studies.items():
            runs, steps = found.get(study.block.env, (0, 0))
            trials, seeds = max(0, self._unasked(name)), len(study.block.seeds)
            more = trials * (1 if study.batched else seeds)
            found[study.block.env] = (runs + more, steps + trials * seeds * study.block.steps)
        return found

    def best(self) -> list[tuple[str, Options, float]]:
        """For each study that has a score: its name, the best options, their score."""
        return [
            (name, _options_of(self._studies[name].space, study.best_params), study.best_value)
            for name, study in self.optuna_studies.items()
            if any(t.state.name == "COMPLETE" for t in study.get_trials(deepcopy=False))
        ]

    def _unasked(self, name: str) -> int:
        """Trials of a study that have not been suggested yet."""
        trials = self.optuna_studies[name].get_trials(deepcopy=False)
        asked = sum(trial.state.name != "FAIL" for trial in trials)
        return self._studies[name].trials - int(asked)

    def _ask(self, name: str) -> list[PlannedRun]:
        journal, study = self.optuna_studies[name], self._studies[name]
        # Seeded by the trial's number, so that a resumed search does not repeat earlier points.
        number = len(journal.get_trials(deepcopy=False))
        seed = np.random.SeedSequence((study.block.seeds[0], number)).generate_state(1)[0]
        journal.sampler = self._optuna.samplers.TPESampler(seed=int(seed))
        trial = journal.ask()
        for option, values in study.space.lists.items():
            trial.suggest_categorical(option, [written(value) for value in values])
        for option, r in study.space.ranges.items():
            if r.whole:
                trial.suggest_int(option, int(r.low), int(r.high), log=r.log)
            else:
                trial.suggest_float(option, r.low, r.high, log=r.log)
        return self.register(name, trial.number, trial.params)

    def _open_runs(self, name: str) -> list[PlannedRun]:
        """Runs of all trials that have no score yet."""
        space, runs = self._studies[name].space, []
        for trial in self.optuna_studies[name].get_trials(deepcopy=False):
            if trial.state.is_finished():
                continue
            if trial.params.keys() == {*space.lists, *space.ranges}:
                runs += self.register(name, trial.number, trial.params)
            else:  # the sweep was killed before all options were suggested
                self.optuna_studies[name].tell(
                    trial.number, state=self._optuna.trial.TrialState.FAIL
                )
        return runs

    def register(self, name: str, number: int, params: Mapping[str, Any]) -> list[PlannedRun]:
        """The runs of a trial, whose ends are now waited for."""
        study = self._studies[name]
        runs = study.runs(number, _options_of(study.space, params))
        self._runs_of[name, number] = runs
        self._trial_of |= {run.name: (name, number) for run in runs}
        return runs

    def score(self, runs: Sequence[PlannedRun]) -> float | None:
        """The mean over replicas; None if an evaluation was not finite."""
        summaries = [read_json(self._folder.folder(run) / "summary.json") for run in runs]
        finals = [replica[METRIC] for summary in summaries for replica in summary["final"]]
        return None if None in finals else float(np.mean(finals))

    def _open(self, study: Study) -> Any:
        optuna = self._optuna
        journal = self._folder.path / "optuna.journal"
        repair(journal)
        backend = optuna.storages.journal.JournalFileBackend(str(journal))
        return optuna.create_study(
            study_name=study.name,
            storage=optuna.storages.JournalStorage(backend),
            direction="maximize",
            load_if_exists=True,
        )


def repair(journal: Path) -> None:
    """Repair what a killed process may have left: a stale lock, an incomplete last line.

    Optuna waits for the lock and refuses the line. No other process writes here: the sweep's folder
    is locked.
    """
    Path(f"{journal}.lock").unlink(missing_ok=True)
    if journal.exists():
        content = journal.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            write_bytes(journal, whole)


def _options_of(space: Space, params: Mapping[str, Any]) -> dict[str, Any]:
    """Options from Optuna's parameters, where listed values are text."""
    listed = {n: {written(v): v for v in values} for n, values in space.lists.items()}
    return {n: listed[n][v] if n in listed else space.ranges[n].short(v) for n, v in params.items()}


def import_optuna() -> Any:
    """The optuna module. Raises InputError if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import optuna
    except ImportError:
        raise InputError("--search optuna needs a package; pip install 'longrun[optuna]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def read_studies(path: Path) -> list[Study]:
    """The studies of a sweep's folder; none if it is not a search."""
    return [Study.from_json(study) for study in read_sweep(path).get("search", [])]


def written_studies(studies: Sequence[Study]) -> list[dict[str, Any]]:
    """The studies as sweep.json holds them."""
    content: list[dict[str, Any]] = json.loads(json.dumps([study.as_json() for study in studies]))
    return content
