"""Random searches and searches with Optuna, uninterrupted and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fake_workers import ENV, InlineWorkers, content, short_runs
from longrun.cli import main
from longrun.lab.sweeps import run_sweep as start
from longrun.lab.sweeps.optuna_search import OptunaSearch
from longrun.lab.sweeps.sweep_folder import SweepFolder
from tiny_envs import ITERATION, TINY_FLAGS

SPACE = ["--range", "learning_rate=1e-4:1e-2:log", "--grid", "scale_rewards=true,false"]
TRIED = ("learning_rate", "scale_rewards")


@pytest.fixture(autouse=True)
def inline(monkeypatch):
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)


def arguments(out: Path, search: str, trials: int, *more: str) -> list[str]:
    steps = ["--steps", str(ITERATION), "--eval-every", str(ITERATION), "--eval-steps", "20"]
    what = ["sweep", "apo", "--env", ENV, "--out", str(out), "--search", search]
    return [*what, "--trials", str(trials), *steps, *SPACE, *TINY_FLAGS, *more]


def opened(out: Path) -> SweepFolder:
    """The folder of a sweep with all of its runs."""
    folder = SweepFolder.open(out)
    if folder.search:
        OptunaSearch(folder)
    return folder


def tried(out: Path) -> list[dict[str, Any]]:
    runs = opened(out).runs.values()
    return [{name: getattr(run.configs[0], name) for name in TRIED} for run in runs]


def trials_of(out: Path) -> list[tuple[str, Any]]:
    """State and result of each trial in the journal."""
    (journal,) = OptunaSearch(SweepFolder.open(out)).optuna_studies.values()
    return [(trial.state.name, trial.values) for trial in journal.get_trials()]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three trials of Optuna with two seeds each."""
    out = tmp_path_factory.mktemp("sweeps") / "searched"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "LocalWorkers", InlineWorkers)
        assert main(arguments(out, "optuna", 3, "--seeds", "2")) == 0
    return out


def test_a_random_search_is_the_same_for_the_same_seed(tmp_path, capsys):
    for name in ("one", "two"):
        assert main(arguments(tmp_path / name, "random", 2)) == 0
    assert tried(tmp_path / "one") == tried(tmp_path / "two")
    assert len(tried(tmp_path / "one")) == 2
    before = content(tmp_path / "one" / "runs")
    assert main(arguments(tmp_path / "one", "random", 3)) == 0
    assert tried(tmp_path / "one")[:2] == tried(tmp_path / "two")
    after = content(tmp_path / "one" / "runs")
    assert {file: after[file] for file in before} == before
    assert "3 of 3 runs are finished" in capsys.readouterr().out


def test_the_score_of_a_trial_is_the_mean_over_seeds_of_the_last_evaluation(searched):
    folder = opened(searched)
    assert list(folder.runs) == [
        f"tiny_envs-Drift-v0_apo_trial=00{trial}_seed{seed}"
        for trial in range(3)
        for seed in range(2)
    ]
    finals = [
        json.loads((folder.folder(name) / "summary.json").read_text())["final"][0]["average_reward"]
        for name in folder.runs
    ]
    expected = [("COMPLETE", [pytest.approx((finals[i] + finals[i + 1]) / 2)]) for i in (0, 2, 4)]
    assert trials_of(searched) == expected
    for run in folder.runs.values():
        assert 1e-4 <= run.configs[0].learning_rate <= 1e-2


def test_the_best_of_a_search_is_printed_as_options(searched, capsys):
    assert main(["sweep", "--resume", "--out", str(searched)]) == 0
    printed = capsys.readouterr().out
    assert "best for apo tiny_envs:Drift-v0: " in printed
    assert "--learning-rate 0.00" in printed
    assert "scale-rewards" in printed
    assert "train it with other seeds" in printed


def test_a_search_has_a_report(searched, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(searched), "--out", str(page), "--no-frames"]) == 0
    assert "trial=" in page.read_text()
    assert capsys.readouterr().err == ""


class Killed(BaseException):
    """Ends a sweep without any of its error handling."""


@pytest.mark.parametrize(
    ("owner", "method", "call"),
    [
        (OptunaSearch, "register", 2),  # suggested, but not started
        (InlineWorkers, "start", 1),  # the second seed of the first trial
        (OptunaSearch, "score", 1),  # trained, but its score is not recorded
    ],
)
def test_a_killed_search_is_resumed_with_the_same_results(
    owner, method, call, searched, tmp_path, monkeypatch
):
    out, calls = tmp_path / "killed", []
    command = arguments(out, "optuna", 3, "--seeds", "2")
    original = getattr(owner, method)

    def killed(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == call + 1:
            raise Killed
        return original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, killed)
        with pytest.raises(Killed):
            main(command)
    assert main(command) == 0
    assert tried(out) == tried(searched)
    assert trials_of(out) == trials_of(searched)


def test_a_search_by_another_preset_is_refused_and_says_which(tmp_path, capsys):
    out = tmp_path / "sweep"
    assert main(arguments(out, "optuna", 1, "--preset", "paper")) == 0
    assert "with --preset paper --" in capsys.readouterr().out
    before = content(out)
    assert main(arguments(out, "optuna", 1)) == 2
    why = "holds another sweep: it has preset=paper, not tuned; choose"
    assert why in capsys.readouterr().err
    assert content(out) == before


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--trials", "2"], "trials=3, not 2"),
        (["--steps", "999"], f"steps={ITERATION}, not 999"),
        (["--seeds", "1"], "seeds=[0, 1], not [0]"),
        (["--eval-every", "999"], f"eval_every={ITERATION}, not 999"),
        (["--learning-rate-decay"], "learning_rate_decay=False, not True"),
        (["--grid", "activation=tanh,relu"], "activation=None, not ['tanh', 'relu']"),
        (["--metric", "episode_return"], "metric=None, not episode_return"),
        (["--reference", f"{ENV}=2"], f"{ENV}=None, not 2.0"),
        (["--env", ENV, "CartPole-v1"], f"envs=['{ENV}'], not ['{ENV}', 'CartPole-v1']"),
        (["--env", "CartPole-v1"], f"envs=['{ENV}'], not ['CartPole-v1']"),
    ],
)
def test_another_search_in_the_folder_is_refused_by_what_differs(more, why, searched, capsys):
    before = content(searched)
    assert main(arguments(searched, "optuna", 3, "--seeds", "2", *more)) == 2
    error = capsys.readouterr().err
    assert f"'{searched}' holds another sweep: it has {why}; choose another --out" in error
    assert f"resume it with longrun sweep --resume --out {searched} --trust\n" in error
    assert content(searched) == before


def test_another_range_is_named_as_it_is_given(searched, capsys):
    words = " ".join(arguments(searched, "optuna", 3, "--seeds", "2"))
    assert main(words.replace("1e-4:1e-2:log", "1e-4:1e-2").split()) == 2
    why = "holds another sweep: it has learning_rate=[0.0001, 0.01, 'log'], not [0.0001, 0.01]; "
    assert why in capsys.readouterr().err


def test_a_search_is_not_put_into_a_sweep_of_another_kind(tmp_path, capsys):
    SweepFolder.create(tmp_path, short_runs(1))
    assert main(arguments(tmp_path, "optuna", 1)) == 2
    assert "holds another sweep: it is no search; choose" in capsys.readouterr().err


def test_a_trial_that_was_not_fully_suggested_is_replaced(tmp_path):
    out = tmp_path / "sweep"
    assert main(arguments(out, "optuna", 1)) == 0
    search = OptunaSearch(SweepFolder.open(out))
    (journal,) = search.optuna_studies.values()
    journal.ask().suggest_categorical("scale_rewards", ["true", "false"])  # and no learning rate
    assert main(arguments(out, "optuna", 2)) == 0
    assert [state for state, _ in trials_of(out)] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert [name[-15:] for name in opened(out).runs] == [
        "trial=000_seed0",
        "trial=002_seed0",
    ]


def test_a_search_is_extended_by_more_trials(tmp_path, capsys):
    out = tmp_path / "sweep"
    assert main(arguments(out, "optuna", 1)) == 0
    before = content(out / "runs")
    assert main(arguments(out, "optuna", 3)) == 0
    assert [state for state, _ in trials_of(out)] == ["COMPLETE"] * 3
    after = content(out / "runs")
    assert {file: after[file] for file in before} == before
    assert len({json.dumps(options) for options in tried(out)}) == 3
    for other in (["--steps", "999"], ["--grid", "clip_range=0.1,0.2"]):
        assert main(arguments(out, "optuna", 3, *other)) == 2
        assert "holds another sweep: it has" in capsys.readouterr().err
    assert main(arguments(out, "random", 3)) == 2
    assert "holds another sweep: it is a search" in capsys.readouterr().err


def test_a_failed_trial_gets_its_score_when_its_run_succeeds(tmp_path, monkeypatch, capsys):
    out = tmp_path / "sweep"

    def broken(self: InlineWorkers, slot: int, *_: Any) -> None:
        self.reported.append((slot, {"kind": "failed", "error": "no", "again": False}))

    with monkeypatch.context() as patch:
        patch.setattr(InlineWorkers, "start", broken)
        assert main(arguments(out, "optuna", 2)) == 1
    assert [state for state, _ in trials_of(out)] == ["RUNNING"] * 2
    assert "best for" not in capsys.readouterr().out
    assert main(["sweep", "--resume", "--out", str(out)]) == 0
    assert [state for state, _ in trials_of(out)] == ["COMPLETE"] * 2
    assert not (out / "failures.json").exists()


def test_a_trial_without_a_finite_score_stays_open(tmp_path, monkeypatch):
    monkeypatch.setattr(OptunaSearch, "score", lambda *_: None)
    assert main(arguments(tmp_path / "sweep", "optuna", 1)) == 0
    assert [state for state, _ in trials_of(tmp_path / "sweep")] == ["RUNNING"]


def test_optuna_without_its_package_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    assert main(arguments(tmp_path / "sweep", "optuna", 1)) == 2
    assert "pip install optuna" in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


def test_a_journal_that_ends_within_a_line_is_refused(tmp_path, capsys):
    assert main(arguments(tmp_path, "optuna", 1)) == 0
    with (tmp_path / "optuna.journal").open("ab") as file:
        file.write(b'{"op_code":4,"wor')  # a power cut in the middle of a line
    before = content(tmp_path)
    assert main(arguments(tmp_path, "optuna", 2)) == 2
    why = f"longrun: '{tmp_path / 'optuna.journal'}' ends within a line; remove that line"
    assert why in capsys.readouterr().err
    assert content(tmp_path) == before | {"sweep.json": content(tmp_path)["sweep.json"]}
