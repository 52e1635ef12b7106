"""Searches for one setting on several environments, and the scores that Optuna gets."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longrun
from fake_runs import fake_run, rising
from fake_workers import ENV, InlineWorkers
from longrun.base.files import as_read
from longrun.cli import main
from longrun.lab.sweeps import run_sweep as start
from longrun.lab.sweeps.design import Design
from longrun.lab.sweeps.grids import Space
from longrun.lab.sweeps.optuna_search import WORST, OptunaSearch, score_of
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.learning.runs.spec import RunSpec
from tiny_envs import ITERATION, TINY, TINY_FLAGS

OTHER = "tiny_envs:EndlessDrift-v0"
REFERENCES = {OTHER: -2.0, ENV: 0.5}


@pytest.fixture(autouse=True)
def inline(monkeypatch):
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)


def arguments(out: Path, trials: int, *more: str) -> list[str]:
    steps = ["--steps", str(ITERATION), "--eval-every", str(ITERATION), "--eval-steps", "20"]
    what = ["sweep", "apo", "ppo", "--env", *REFERENCES, "--out", str(out), "--search", "optuna"]
    references = [word for e, r in REFERENCES.items() for word in ("--reference", f"{e}={r}")]
    space = ["--grid", "gae_lambda=0.8,0.9", "--range", "learning_rate=1e-4:1e-2:log"]
    return [*what, "--trials", str(trials), *references, *space, *steps, *TINY_FLAGS, *more]


def searches(out: Path) -> OptunaSearch:
    return OptunaSearch(SweepFolder.open(out))


def opened(out: Path) -> SweepFolder:
    """The folder of a search with all of its runs."""
    folder = SweepFolder.open(out)
    OptunaSearch(folder)
    return folder


def trials_of(out: Path) -> dict[str, list[tuple[str, Any, Any]]]:
    """State, options and value of each trial of each study."""
    studies = searches(out).optuna_studies.items()
    return {
        name: [(t.state.name, t.params, t.value) for t in s.get_trials()] for name, s in studies
    }


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trials of each algorithm with two seeds on two environments."""
    out = tmp_path_factory.mktemp("sweeps") / "searched"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "LocalWorkers", InlineWorkers)
        assert main(arguments(out, 2, "--seed", "100", "--seeds", "2")) == 0
    return out


def last_reward(run: Path) -> float:
    with (run / "evaluations.csv").open(newline="") as file:
        return float(list(csv.DictReader(file))[-1]["average_reward"])


def test_a_trial_is_one_setting_on_all_environments(searched: Path) -> None:
    folder = opened(searched)
    runs = list(folder.runs.values())
    assert [(run.algorithm, run.env, run.seeds) for run in runs[:4]] == [
        ("apo", OTHER, (100,)),
        ("apo", ENV, (100,)),
        ("apo", OTHER, (101,)),
        ("apo", ENV, (101,)),
    ]
    in_turn = [run.algorithm for run in runs]
    assert in_turn == [a for a in ("apo", "ppo", "apo", "ppo") for _ in range(4)]
    for first in range(0, 16, 4):
        assert len({run.configs for run in runs[first : first + 4]}) == 1


def test_its_score_is_the_interquartile_mean_of_scores_by_reference(searched: Path) -> None:
    folder = opened(searched)
    trials = trials_of(searched)
    assert list(trials) == [f"{algorithm} {OTHER} {ENV}" for algorithm in ("apo", "ppo")]
    for algorithm, found in zip(("apo", "ppo"), trials.values(), strict=True):
        for number, (state, _, value) in enumerate(found):
            names = [n for n in folder.runs if f"_{algorithm}_trial={number:03}" in n]
            references = {n: abs(REFERENCES[folder.runs[n].env]) for n in names}
            ratios = sorted(last_reward(folder.folder(n)) / references[n] for n in names)
            assert len(ratios) == 4
            assert (state, value) == ("COMPLETE", pytest.approx(np.mean(ratios[1:3])))


def test_the_first_trial_is_the_preset_where_the_space_has_it(searched: Path) -> None:
    for found in trials_of(searched).values():
        assert found[0][1]["learning_rate"] == 3e-4
        assert found[0][1]["gae_lambda"] == "0.9"
        assert found[1][1]["learning_rate"] != 3e-4


def test_a_point_of_the_preset_has_listed_values() -> None:
    lists = {"num_envs": [2, 10], "hidden_sizes": [[8], [64, 64]]}
    lists |= {"scale_rewards": [True], "initial_log_std": [-1, -0.5]}
    design = Design(algorithms=["apo"], envs=[ENV], steps=1, options={"scale_rewards": True})
    config = as_read(dataclasses.asdict(design.config("apo")))
    assert Space(lists, {}).contained(config) == {
        "num_envs": 2,
        "hidden_sizes": [64, 64],
        "scale_rewards": True,
        "initial_log_std": -1.0,
    }


def test_a_finished_search_is_printed_and_extended(searched: Path, tmp_path, capsys) -> None:
    out = tmp_path / "more"
    assert main(arguments(out, 1)) == 0
    assert f"best for apo {OTHER} {ENV}: " in capsys.readouterr().out
    before = trials_of(out)
    assert searches(out).to_come() == {OTHER: (0, 0), ENV: (0, 0)}
    assert main(arguments(out, 2)) == 0
    assert [found[:1] for found in trials_of(out).values()] == list(before.values())
    assert [len(found) for found in trials_of(out).values()] == [2, 2]
    assert main(arguments(out, 2, "--metric", "episode_return")) == 2
    assert "holds another sweep" in capsys.readouterr().err


def test_runs_to_come_are_counted_for_each_environment(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(OptunaSearch, "suggest", lambda *_: [])
    assert main(arguments(tmp_path, 3, "--seeds", "2")) == 0
    assert searches(tmp_path).to_come() == dict.fromkeys(
        REFERENCES, (2 * 3 * 2, 2 * 3 * 2 * ITERATION)
    )


def test_a_search_from_python_has_the_same_objective(tmp_path) -> None:
    longrun.sweep(
        "apo",
        list(REFERENCES),
        ITERATION,
        tmp_path,
        search="optuna",
        trials=1,
        grid={"num_envs": [4, 8]},
        metric="average_reward",
        references=REFERENCES,
        eval_every=ITERATION,
        eval_steps=20,
        quiet=True,
        **{n: v for n, v in TINY.items() if n != "num_envs"},
    )
    folder = opened(tmp_path)
    assert folder.search is not None
    assert (folder.search.metric, folder.search.references) == ("average_reward", REFERENCES)
    assert {run.configs[0].num_envs for run in folder.runs.values()} <= {4, 8}
    with pytest.raises(longrun.InputError, match=f"{OTHER} has no reference; give one for each"):
        longrun.sweep(
            "apo",
            list(REFERENCES),
            1,
            tmp_path,
            search="optuna",
            references={ENV: 1},
            grid={"epochs": [1]},
        )
    with pytest.raises(longrun.InputError, match=f"the reference {ENV}='1' must be a number"):
        given = {"references": {ENV: "1"}, "grid": {"epochs": [1]}}
        longrun.sweep("apo", ENV, 1, tmp_path, search="optuna", **given)


def test_a_trial_that_diverges_has_the_worst_score(tmp_path, monkeypatch, capsys) -> None:
    original = InlineWorkers.start

    def diverging(self: InlineWorkers, slot: int, run: RunSpec, path: Path) -> None:
        if (run.env, run.algorithm) == (OTHER, "apo"):
            error = "NonFiniteError: the policy of replica 0 became non-finite"
            self.reported.append((slot, {"kind": "failed", "error": error, "again": False}))
        else:
            original(self, slot, run, path)

    monkeypatch.setattr(InlineWorkers, "start", diverging)
    assert main(arguments(tmp_path, 2)) == 1
    apo, ppo = trials_of(tmp_path).values()
    assert [(state, value) for state, _, value in apo] == [("COMPLETE", WORST)] * 2
    assert all(state == "COMPLETE" and value > WORST for state, _, value in ppo)
    printed = capsys.readouterr().out
    assert "best for ppo" in printed
    assert "best for apo" not in printed
    assert main(["sweep", "--resume", "--out", str(tmp_path)]) == 1
    assert [len(found) for found in trials_of(tmp_path).values()] == [2, 2]


def score(*runs: Path, metric: str | None = None, **references: float) -> float | None:
    """The score of fake runs, whose environment is their folder's name."""
    return score_of([(path.name, path) for path in runs], metric, references)


def test_a_score_is_the_mean_over_the_last_tenth(tmp_path) -> None:
    run = fake_run(tmp_path / "A-v0", rising(100, points=50), finished=True)
    assert score(run) == pytest.approx(96)  # 92, 94, ..., 100
    assert score(run, metric="episode_return") == pytest.approx(960)
    assert score(run, metric="episode_return", **{"A-v0": -960}) == pytest.approx(1)


def test_without_references_it_is_the_mean_over_seeds(tmp_path) -> None:
    runs = [fake_run(tmp_path / f"{h}", {1000: h}, finished=True) for h in (1.0, 2.0, 3.0, 10.0)]
    assert score(*runs) == pytest.approx(4)
    assert score(*runs, **dict.fromkeys(["1.0", "2.0", "3.0", "10.0"], 1.0)) == pytest.approx(2.5)


def test_a_score_that_is_not_finite_is_none(tmp_path) -> None:
    run = fake_run(tmp_path / "A-v0", rising(1), ends=False, finished=True)
    assert score(run, metric="episode_return") is None
