"""A search with Optuna, which suggests options from the results so far."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from longrun.base.errors import FolderError, InputError, NonFiniteError
from longrun.lab.sweeps.grids import Options, written
from longrun.lab.sweeps.objective import WORST
from longrun.lab.sweeps.plan import PlannedRun
from longrun.lab.sweeps.study import Space, Study
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.learning.options.presets import DEFAULT


class OptunaSearch:
    """Asks Optuna for points and passes it their scores; its journal is in the sweep's folder.

    The first trial has the values of the preset where the space contains them. A trial without a
    score stays open: a failed one gets its score when its runs succeed later, and one that was
    interrupted is resumed. A trial that diverged has the worst score, so that Optuna leaves its
    neighbourhood. Only a trial that was not fully written is replaced.
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
        written = {run.name for run in folder.runs}
        open_runs = [run for name in self._studies for run in self._open_runs(name)]
        self._unwritten = [run for run in open_runs if run.name not in written]
        """Runs that the journal has and sweep.json lacks: the sweep was killed in between."""

    def suggest(self, count: int) -> list[PlannedRun]:
        """Suggest about so many further runs, each of the study that lacks most of its trials."""
        runs, self._unwritten = self._unwritten, []
        while len(runs) < count:
            name = max(self._studies, key=self._unasked)
            if self._unasked(name) <= 0:
                break
            runs += self._ask(name)
        return runs

    def finished(self, run: PlannedRun) -> None:
        """Pass the trial's score to Optuna if this was the last of its runs."""
        trial = self._trial_of.pop(run.name, None)
        if trial is None or trial in self._trial_of.values():
            return
        score = self.score(trial)
        if score is not None:
            self.optuna_studies[trial[0]].tell(trial[1], score)

    def failed(self, run: PlannedRun, error: str) -> None:
        """Give the trial the worst score if the run diverged; it would do so again."""
        trial = self._trial_of.get(run.name)
        if trial is not None and error.startswith(NonFiniteError.__name__):
            self._trial_of = {name: t for name, t in self._trial_of.items() if t != trial}
            self.optuna_studies[trial[0]].tell(trial[1], WORST)

    def score(self, trial: tuple[str, int]) -> float | None:
        """The score of a trial whose runs are finished; None if one is not finite."""
        return self._studies[trial[0]].objective.score(self._folder, self._runs_of[trial])

    def to_come(self) -> dict[str, tuple[int, int]]:
        """The runs on each environment that have not been suggested yet, and their steps."""
        found: dict[str, tuple[int, int]] = {}
        for name, study in self._studies.items():
            for env, (runs, steps) in study.runs_to_come(max(0, self._unasked(name))).items():
                before = found.get(env, (0, 0))
                found[env] = (before[0] + runs, before[1] + steps)
        return found

    def best(self) -> list[tuple[str, Options, float]]:
        """The name, the best options and their score, of each study that has a score.

        Where the preset is not the default, it is among the options.
        """
        return [
            (name, self._best_options(name, study.best_params), study.best_value)
            for name, study in self.optuna_studies.items()
            if any((t.values or [WORST])[0] > WORST for t in study.get_trials(deepcopy=False))
        ]

    def _best_options(self, name: str, params: Mapping[str, Any]) -> Options:
        study = self._studies[name]
        preset = {} if study.block.preset == DEFAULT else {"preset": study.block.preset}
        return preset | _options_of(study.space, params)

    def _unasked(self, name: str) -> int:
        """Trials of a study that have not been suggested yet."""
        trials = self.optuna_studies[name].get_trials(deepcopy=False)
        asked = sum(trial.state.name != "FAIL" for trial in trials)
        return self._studies[name].trials - int(asked)

    def _ask(self, name: str) -> list[PlannedRun]:
        journal, study = self.optuna_studies[name], self._studies[name]
        journal.sampler = self._sampler(name)
        trial = journal.ask()
        for option, values in study.space.lists.items():
            trial.suggest_categorical(option, [written(value) for value in values])
        for option, r in study.space.ranges.items():
            if r.whole:
                trial.suggest_int(option, int(r.low), int(r.high), log=r.log)
            else:
                trial.suggest_float(option, r.low, r.high, log=r.log)
        return self.register(name, trial.number, trial.params)

    def _sampler(self, name: str) -> Any:
        """Seeded by the trial's number, so that a resumed search does not repeat earlier points."""
        study, samplers = self._studies[name], self._optuna.samplers
        number = len(self.optuna_studies[name].get_trials(deepcopy=False))
        seed = np.random.SeedSequence((study.block.seeds[0], number)).generate_state(1)[0]
        sampler = samplers.TPESampler(seed=int(seed))
        if self._unasked(name) < study.trials:
            return sampler
        lists = study.space.lists
        first = {n: written(v) if n in lists else v for n, v in study.preset_point().items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            return samplers.PartialFixedSampler(first, sampler)

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

    def _open(self, study: Study) -> Any:
        optuna = self._optuna
        journal = self._folder.path / "optuna.journal"
        _require_whole(journal)
        backend = optuna.storages.journal.JournalFileBackend(str(journal))
        return optuna.create_study(
            study_name=study.name,
            storage=optuna.storages.JournalStorage(backend),
            direction="maximize",
            load_if_exists=True,
        )


def _require_whole(journal: Path) -> None:
    """Raise FolderError if the last line is incomplete: Optuna would write into it."""
    if journal.exists() and not journal.read_bytes().endswith(b"\n"):
        raise FolderError(
            f"'{journal}' ends within a line; remove that line, or choose another --out"
        )


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
        raise InputError("--search optuna needs a package; pip install optuna") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
