"""A search with Optuna, which suggests options from the results so far."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from longrun.base.errors import FolderError, InputError, NonFiniteError
from longrun.base.files import as_read
from longrun.lab.results.metric_names import SCORES
from longrun.lab.results.read import read_results
from longrun.lab.results.scores import scores_of
from longrun.lab.results.statistics import interquartile_mean
from longrun.lab.sweeps.grids import Options, written
from longrun.lab.sweeps.scheduler import Search
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.learning.envs.native.protocol import is_native
from longrun.learning.options.presets import DEFAULT
from longrun.learning.runs.spec import RunSpec

WORST = -math.inf
"""The score of a setting whose training diverged."""
Trial = tuple[str, int]
"""The name of its study, and its number there."""


class OptunaSearch(Search):
    """Asks Optuna for points and passes it their scores; its journal is in the sweep's folder.

    The first trial has the values of the preset where the space contains them. A trial without a
    score stays open: a failed one gets its score when its runs succeed later, and one that was
    interrupted is resumed. A trial that diverged has the worst score, so that Optuna leaves its
    neighbourhood. Only a trial that was not fully written is replaced.
    """

    def __init__(self, folder: SweepFolder) -> None:
        assert folder.search is not None
        self._folder, self._design = folder, folder.search
        self._studies = {study.name: study for study in self._design.studies()}
        self._optuna = import_optuna()
        self.optuna_studies = {name: self._open(name) for name in self._studies}
        """Optuna's own record of each study."""
        self._open_trials: dict[Trial, list[str]] = {}
        """The runs of each trial without a score."""
        trials = [
            (trial, name)
            for name, journal in self.optuna_studies.items()
            for trial in journal.get_trials(deepcopy=False)
        ]
        for trial, name in sorted(trials, key=lambda each: each[0].number):  # as suggested
            folder.runs.update(self._known(name, trial))

    def suggest(self, count: int) -> dict[str, RunSpec]:
        """Suggest about so many further runs, each of the study that lacks most of its trials."""
        runs: dict[str, RunSpec] = {}
        while len(runs) < count:
            name = max(self._studies, key=self._unasked)
            if self._unasked(name) <= 0:
                break
            runs |= self._ask(name)
        return runs

    def finished(self, name: str) -> None:
        """Pass the trial's score to Optuna if this was the last of its runs."""
        trial = self._trial_of(name)
        if trial and all(map(self._folder.is_finished, self._open_trials[trial])):
            score = self.score(self._open_trials.pop(trial))
            if score is not None:
                self.optuna_studies[trial[0]].tell(trial[1], score)

    def failed(self, name: str, error: str) -> None:
        """Give the trial the worst score if the run diverged; it would do so again."""
        trial = self._trial_of(name)
        if trial and error.startswith(NonFiniteError.__name__):
            del self._open_trials[trial]
            self.optuna_studies[trial[0]].tell(trial[1], WORST)

    def _trial_of(self, name: str) -> Trial | None:
        """The trial without a score that a run belongs to."""
        return next((trial for trial, runs in self._open_trials.items() if name in runs), None)

    def score(self, names: Iterable[str]) -> float | None:
        """The score of a trial whose runs are finished; None if one is not finite."""
        folders = [(self._folder.runs[name].env, self._folder.folder(name)) for name in names]
        return score_of(folders, self._design.metric, self._design.references)

    def to_come(self) -> dict[str, tuple[int, int]]:
        """The runs on each environment that have not been suggested yet, and their steps."""
        trials: Counter[str] = Counter()
        for name, study in self._studies.items():
            trials.update(dict.fromkeys(study.envs, max(0, self._unasked(name))))
        seeds = len(self._design.seeds)
        runs = {e: 1 if self._design.batched and is_native(e) else seeds for e in trials}
        return {e: (n * runs[e], n * seeds * self._design.steps) for e, n in trials.items()}

    def best(self) -> list[tuple[str, Options, float]]:
        """The name, the best options and their score, of each study that has a score.

        Where the preset is not the default, it is among the options.
        """
        preset = {} if self._design.preset == DEFAULT else {"preset": self._design.preset}
        return [
            (name, preset | self._options(name, study.best_params), study.best_value)
            for name, study in self.optuna_studies.items()
            if any((t.values or [WORST])[0] > WORST for t in study.get_trials(deepcopy=False))
        ]

    def _unasked(self, name: str) -> int:
        """Trials of a study that have not been suggested yet."""
        trials = self.optuna_studies[name].get_trials(deepcopy=False)
        asked = sum(trial.state.name != "FAIL" for trial in trials)
        return (self._design.trials or 0) - int(asked)

    def _ask(self, name: str) -> dict[str, RunSpec]:
        journal, space = self.optuna_studies[name], self._studies[name].space
        journal.sampler = self._sampler(name)
        trial = journal.ask()
        for option, values in space.lists.items():
            trial.suggest_categorical(option, [written(value) for value in values])
        for option, r in space.ranges.items():
            if r.whole:
                trial.suggest_int(option, int(r.low), int(r.high), log=r.log)
            else:
                trial.suggest_float(option, r.low, r.high, log=r.log)
        return self.register(name, trial.number, trial.params)

    def _sampler(self, name: str) -> Any:
        """Seeded by the trial's number, so that a resumed search does not repeat earlier points."""
        samplers = self._optuna.samplers
        number = len(self.optuna_studies[name].get_trials(deepcopy=False))
        seed = np.random.SeedSequence((self._design.seeds[0], number)).generate_state(1)[0]
        sampler = samplers.TPESampler(seed=int(seed))
        if self._unasked(name) < (self._design.trials or 0):
            return sampler
        study = self._studies[name]
        config = as_read(dataclasses.asdict(self._design.config(study.algorithm)))
        lists = study.space.lists
        first = study.space.contained(config)
        first = {n: written(value) if n in lists else value for n, value in first.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            return samplers.PartialFixedSampler(first, sampler)

    def _known(self, name: str, trial: Any) -> dict[str, RunSpec]:
        """The runs of a trial in the journal; without a score it is waited for."""
        study = self._studies[name]
        if trial.params.keys() != {*study.space.lists, *study.space.ranges}:
            if not trial.state.is_finished():  # the sweep was killed before it was fully suggested
                failed = self._optuna.trial.TrialState.FAIL
                self.optuna_studies[name].tell(trial.number, state=failed)
            return {}
        if trial.state.is_finished():
            return self._design.trial(study, trial.number, self._options(name, trial.params))
        return self.register(name, trial.number, trial.params)

    def register(self, name: str, number: int, params: Mapping[str, Any]) -> dict[str, RunSpec]:
        """The runs of a trial, whose ends are now waited for."""
        runs = self._design.trial(self._studies[name], number, self._options(name, params))
        self._open_trials[name, number] = list(runs)
        return runs

    def _options(self, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Options from Optuna's parameters, where listed values are text."""
        space = self._studies[name].space
        listed = {n: {written(v): v for v in values} for n, values in space.lists.items()}
        return {
            n: listed[n][v] if n in listed else space.ranges[n].short(v) for n, v in params.items()
        }

    def _open(self, name: str) -> Any:
        journal = self._folder.path / "optuna.journal"
        _require_whole(journal)
        journals = self._optuna.storages.journal
        return self._optuna.create_study(
            study_name=name,
            storage=self._optuna.storages.JournalStorage(journals.JournalFileBackend(str(journal))),
            direction="maximize",
            load_if_exists=True,
        )


def score_of(
    runs: Iterable[tuple[str, Path]], metric: str | None, references: Mapping[str, float]
) -> float | None:
    """The final scores of runs, given by environment and folder, as one number.

    The mean over seeds; with references the interquartile mean over environments and seeds of
    score / |reference|, which no environment dominates. None if a score is not finite.
    """
    scores = np.array(
        [
            score / abs(references.get(env, 1.0))
            for env, path in runs
            for setting in read_results(path)
            for score in scores_of(setting, metric or SCORES[0])[0]
        ]
    )
    if not np.isfinite(scores).all():
        return None
    return float(interquartile_mean(scores[None]) if references else scores.mean())


def _require_whole(journal: Path) -> None:
    """Raise FolderError if the last line is incomplete: Optuna would write into it."""
    if journal.exists() and not journal.read_bytes().endswith(b"\n"):
        raise FolderError(
            f"'{journal}' ends within a line; remove that line, or choose another --out"
        )


def import_optuna() -> Any:
    """The optuna module. Raises InputError if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import optuna
    except ImportError:
        raise InputError("search=optuna needs a package; pip install optuna") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
