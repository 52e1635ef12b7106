"""What a search maximises: the score of one setting, over all environments and seeds of a trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.lab.results.metric_names import SCORES
from longrun.lab.results.read import read_results
from longrun.lab.results.scores import scores_of
from longrun.lab.results.statistics import interquartile_mean
from longrun.lab.sweeps.plan import PlannedRun
from longrun.lab.sweeps.sweep_folder import SweepFolder

WORST = -math.inf
"""The score of a setting whose training diverged."""


@dataclass(frozen=True)
class Objective:
    """Final scores (`longrun.lab.results`) of the runs of a trial, as one number."""

    metric: str = SCORES[0]
    references: Mapping[str, float] = field(default_factory=dict)
    """The score of each environment that counts as 1, or as -1 if it is negative; empty where a
    study has one environment."""

    def score(self, folder: SweepFolder, runs: Sequence[PlannedRun]) -> float | None:
        """The mean over seeds; with references the interquartile mean over environments and seeds
        of score / |reference|, which no environment dominates. None if a score is not finite.
        """
        scores = np.array(
            [
                score / abs(self.references.get(run.env, 1.0))
                for run in runs
                for setting in read_results(folder.folder(run))
                for score in scores_of(setting, self.metric)[0]
            ]
        )
        if not np.isfinite(scores).all():
            return None
        return float(interquartile_mean(scores[None]) if self.references else scores.mean())


def checked_objective(
    metric: str | None, references: Mapping[str, float], envs: Mapping[str, str]
) -> Objective:
    """The objective of a search on environments, whose full names `envs` has by those requested.

    Raises InputError if the metric is unknown, or if references are given but not for each of them.
    """
    metric = SCORES[0] if metric is None else known("--metric", metric, SCORES)
    for env, reference in references.items():
        if env not in envs:
            raise InputError(f"--reference {env} is not among --env; add it there or leave it out")
        if not math.isfinite(reference) or reference == 0:
            raise InputError(f"--reference {env}={reference} must be a finite number other than 0")
    if missing := [env for env in envs if references and env not in references]:
        raise InputError(f"--reference lacks {missing[0]}; give one for each --env")
    return Objective(metric, {envs[env]: float(references[env]) for env in envs if references})


def parse_references(texts: Sequence[str]) -> dict[str, float]:
    """The reference score of each environment from texts such as `Ant-v5=4079`."""
    references: dict[str, float] = {}
    for text in texts:
        env, equals, number = text.rpartition("=")  # an environment's arguments have "=", too
        try:
            reference = float(number)
        except ValueError:
            equals = ""
        if not equals or not env:
            raise InputError(f"--reference '{text}' must look like Ant-v5=4079")
        if env in references:
            raise InputError(f"--reference names {env} twice; give one number")
        references[env] = reference
    return references
