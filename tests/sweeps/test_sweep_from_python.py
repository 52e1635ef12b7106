"""`longrun.sweep` is the command in Python, and results become data frames."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import longrun
from fake_workers import ENV, sweep_arguments
from longrun import InputError, LongrunError
from longrun.cli import main
from longrun.lab.sweeps import from_python, run_sweep
from longrun.lab.sweeps.scheduler import Outcome
from tiny_envs import ITERATION, TINY

OPTIONS = dict(TINY)
EVALUATED = {"eval_every": ITERATION, "eval_steps": 50, "quiet": True, "workers": 1}


@pytest.fixture
def swept(inline: None, tmp_path: Path) -> tuple[Path, Any]:
    out = tmp_path / "sweep"
    found = longrun.sweep(
        ["apo", "PPO"],
        ENV,
        2 * ITERATION,
        out,
        seeds=[5, 9],
        grid={"discount": [0.9, 0.99], "hidden_sizes": [(8,)]},
        **EVALUATED,
        **{name: value for name, value in OPTIONS.items() if name != "hidden_sizes"},
    )
    return out, found


def test_a_sweep_trains_everything_and_returns_its_results(swept: tuple[Path, Any]) -> None:
    out, found = swept
    assert len(list((out / "runs").iterdir())) == 6
    assert {s.config.algorithm for s in found} == {"apo", "ppo"}
    assert [s.seeds for s in found] == [(5, 9)] * 3
    assert [s.label for s in longrun.read_results(out)] == [s.label for s in found]


def test_results_become_a_data_frame(swept: tuple[Path, Any]) -> None:
    pandas = pytest.importorskip("pandas")
    out, found = swept
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 3 * 2 * 2  # settings, seeds, evaluations
    assert {"env", "setting", "algorithm", "preset", "discount", "seed", "step"} <= set(frame)
    assert "gae_lambda" not in frame  # the same everywhere
    ppo = frame[(frame.algorithm == "ppo") & (frame.discount == 0.9) & (frame.seed == 9)]
    (setting,) = [s for s in found if getattr(s.config, "discount", None) == 0.9]
    np.testing.assert_array_equal(ppo.average_reward, setting.values["average_reward"][:, 1])
    assert ppo.step.tolist() == [ITERATION, 2 * ITERATION]
    training = longrun.read_metrics(out, ["entropy"]).to_pandas()
    assert np.isfinite(training.entropy).all()

    comparison = longrun.compare(found, metrics="average_reward")
    table = comparison.to_pandas()
    assert len(table) == len(comparison.rows) == 3
    row = comparison.rows[1]
    assert table.iqm[1] == row.aggregates["iqm"].value
    assert table.improvement[1] == row.improvement.value
    assert np.isnan(table.improvement[0])  # the baseline itself


def test_the_same_call_resumes_and_extends(
    inline: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(seeds: int) -> Any:
        return longrun.sweep("apo", ENV, ITERATION, tmp_path, seeds=seeds, **EVALUATED, **OPTIONS)

    assert call(1)[0].seeds == (0,)
    made = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*.csv")}
    assert call(2)[0].seeds == (0, 1)
    assert all(path.stat().st_mtime_ns == time for path, time in made.items())


def test_an_ablation_changes_one_option_at_a_time_also_one_that_is_given(
    inline: None, tmp_path: Path
) -> None:
    def call() -> Any:
        values = {"value_constraint": [0.0, 0.3], "gae_lambda": [0.5]}
        chosen = {**OPTIONS, "value_constraint": 0.3}
        return longrun.sweep(
            "apo", ENV, ITERATION, tmp_path, search="ablation", grid=values, **EVALUATED, **chosen
        )

    found = {(s.config.value_constraint, s.config.gae_lambda) for s in call()}
    usual = longrun.APO(ENV, **OPTIONS).config.gae_lambda
    assert found == {(0.3, usual), (0.0, usual), (0.3, 0.5)}
    assert len(call()) == 3  # resumed: all are there


def test_it_writes_what_the_command_writes(inline: None, tmp_path: Path) -> None:
    assert main(sweep_arguments(tmp_path / "command", "--eval-every", "64")) == 0
    content = json.loads((tmp_path / "command" / "sweep.json").read_text())
    run = next(iter(content["runs"].values()))
    longrun.sweep(
        run["algorithm"],
        run["env"],
        run["steps"],
        tmp_path / "python",
        seeds=2,
        eval_every=run["eval_every"],
        eval_steps=run["eval_steps"],
        **run["options"],
        quiet=True,
    )
    one, two = (tmp_path / name for name in ("command", "python"))
    first, second = (json.loads((path / "sweep.json").read_text()) for path in (one, two))
    for name in ("id", "created"):  # when it was made may be another second
        first.pop(name), second.pop(name)
    assert first == second
    for run in (one / "runs").iterdir():
        other = two / "runs" / run.name / "evaluations.csv"
        assert (run / "evaluations.csv").read_text() == other.read_text()


def test_failed_runs_are_an_error_after_the_others(inline: None, tmp_path: Path) -> None:
    options = {**OPTIONS, "action_bounds": "raw"}  # which Drift refuses
    with pytest.raises(LongrunError, match=r"1 of 1 runs in .* failed, .*the same call tries"):
        longrun.sweep("apo", ENV, ITERATION, tmp_path, retries=0, **EVALUATED, **options)


def test_a_sweep_leaves_the_device_that_jax_uses_as_it_was(
    inline: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environments in JAX are opened on the CPU, so that the workers get the GPU's memory."""
    before, seen = jax.config.jax_platforms, []

    def opened(env: str) -> Any:
        seen.append(jax.config.jax_platforms)
        raise InputError("enough")

    monkeypatch.setattr(run_sweep, "default_backend", lambda: "gpu")
    monkeypatch.setattr(run_sweep, "open_env", opened)
    with pytest.raises(InputError, match="enough"):
        longrun.sweep("apo", "jax:tandem", 64, tmp_path / "out", quiet=True)
    assert seen == ["cpu"]
    assert jax.config.jax_platforms == before


def test_numbers_of_numpy_are_written_as_those_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []
    monkeypatch.setattr(from_python, "train_sweep", lambda *_: (Outcome(), trained.append(_)))
    monkeypatch.setattr(from_python, "read_results", lambda paths: paths)
    every = {"eval_every": np.int64(32), "eval_steps": np.int32(20), "trials": np.int64(2)}
    for search in ("random", "optuna"):
        longrun.sweep(
            "apo",
            ENV,
            np.int64(64),
            tmp_path / search,
            seeds=[np.int64(3)],
            search=search,
            grid={
                "epochs": [np.int64(1), np.int64(2)],
                "hidden_sizes": [(np.int64(4), 4)],
                "scale_rewards": [np.True_],
                "num_envs": [np.int64(2)],
                "rollout_steps": [np.int64(8)],
            },
            ranges={
                "learning_rate": (np.float32(1e-4), np.float32(1e-2), "log"),
                "value_constraint": np.array([0.1, 0.3]),
            },
            references={ENV: np.float32(2)} if search == "optuna" else None,
            limits={"terminated": np.float32(0.5)},
            minibatch_size=np.int64(8),
            **every,
        )
    assert len(trained) == 2


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "environment": ({"envs": lambda: None}, "envs=.* must be a name"),
    "algorithm": ({"algorithms": "dqn"}, "unknown algorithm 'dqn'"),
    "option": ({"lr": 0.9}, "unknown option of APO 'lr'; it is called learning_rate here"),
    "grid": ({"grid": {"epochs": 3}}, "grid of epochs=3 must be a list"),
    "twice": ({"grid": {"epochs": [3, 3]}}, "grid of epochs: 3 is listed twice; list each once"),
    "no search": (
        {"ranges": {"gae_lambda": (0.1, 0.9)}},
        "^ranges needs search=random or",
    ),
    "range": (
        {"ranges": {"gae_lambda": (0.9, 0.1)}, "search": "random"},
        r"range of gae_lambda: \[0.9, 0.1\]: low must be below high",
    ),
    "range of text": (
        {"ranges": {"learning_rate": ("1e-5", "1e-3")}, "search": "random"},
        r"range of learning_rate: low and high of \['1e-5', '1e-3'\] must be numbers",
    ),
    "range of truth": (
        {"ranges": {"learning_rate": (False, True)}, "search": "random"},
        r"low and high of \[False, True\] must be numbers",
    ),
    "no range": (
        {"ranges": {"gae_lambda": 0.9}, "search": "random"},
        "0.9 must be .low, high. or",
    ),
    "range as text": ({"ranges": {"gae_lambda": "ab"}, "search": "random"}, "'ab' must be .low"),
    "one end": ({"ranges": {"gae_lambda": (0.1,)}}, "must be .low, high. or"),
    "three": ({"ranges": {"gae_lambda": (0.1, 0.9, "lin")}}, "must be .low, high. or"),
    "never": (
        {"ranges": {"gae_lambda": (0.1, 0.9)}, "search": "optuna", "eval_every": 0},
        "search=optuna needs evaluations, and eval_every=0 has none$",
    ),
    "seeds": ({"seeds": [1, 1]}, "seeds: 1 is listed twice; list each once"),
    "function": ({"policy_network": (print, print)}, "policy_network is a function"),
    "value": ({"grid": {"epochs": [0]}}, "epochs=0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_one_line_in_the_words_of_python(name: str, tmp_path: Path) -> None:
    given, words = WRONG[name]
    arguments = {"algorithms": "apo", "envs": ENV, "steps": 64, "out": tmp_path / "out"} | given
    with pytest.raises(InputError, match=words) as caught:
        longrun.sweep(**arguments)
    assert "--" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_data_frame_without_pandas_names_the_extra(
    swept: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        swept[1].to_pandas()
