"""The commands train, evaluate and plot: files and output."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from command_line import (
    files_of,
    read_csv,
    require_picture,
    train_arguments,
)
from longrun import APO
from longrun.cli import main
from longrun.learning.options.config import ALGORITHMS
from tiny_envs import bits

COLUMNS = (
    "replica,seed,step,average_reward,average_reward_low,average_reward_high,episode_return,"
    "episode_length,episodes,settled"
)


# Run folders.


def test_the_configuration_describes_the_run(run):
    config = json.loads((run / "config.json").read_text())
    assert (config["algorithm"], config["env"], config["steps"]) == ("apo", "Drift-v0", 128)
    assert set(config["options"]) == {f.name for f in dataclasses.fields(ALGORITHMS["apo"])}
    assert config["options"]["hidden_sizes"] == [8]
    assert config["replicas"] == [
        {"seed": seed, "value_constraint": nu} for nu in (0.0, 0.3) for seed in (0, 1)
    ]
    assert {"longrun", "jax", "numpy", "gymnasium", "python"} <= set(config["versions"])
    assert (config["eval_every"], config["eval_steps"], config["num_workers"]) == (64, 100, 0)


def test_metrics_have_one_row_for_each_replica_and_iteration(run):
    rows = read_csv(run / "metrics.csv")
    assert sorted((int(r["replica"]), int(r["seed"]), int(r["step"])) for r in rows) == [
        (replica, replica % 2, step) for replica in range(4) for step in (64, 128)
    ]
    for row in rows:
        assert {"reward", "gain", "value_loss", "steps_per_second"} <= set(row)
        assert all(math.isfinite(float(value)) for value in row.values())


def test_evaluations_have_the_documented_columns(run):
    assert (run / "evaluations.csv").read_text().splitlines()[0] == COLUMNS
    rows = read_csv(run / "evaluations.csv")
    assert sorted((int(r["replica"]), int(r["step"])) for r in rows) == [
        (replica, step) for replica in range(4) for step in (64, 128)
    ]
    for row in rows:
        low, mean, high = (float(row[f"average_reward{end}"]) for end in ("_low", "", "_high"))
        assert low < mean < high


def test_the_summary_has_the_last_evaluations(run):
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["algorithm"], summary["env"]) == ("apo", "Drift-v0")
    assert (summary["steps"], summary["replicas"]) == (128, 4)
    for name in ("steps_per_second", "collect_s", "update_s", "evaluate_s"):
        assert summary[name] >= 0
    last = {r["replica"]: r for r in read_csv(run / "evaluations.csv") if r["step"] == "128"}
    for replica, final in enumerate(summary["final"]):
        assert (final["seed"], final["value_constraint"]) == (replica % 2, (0.0, 0.3)[replica // 2])
        for name in ("average_reward", "episode_return"):
            assert final[name] == pytest.approx(float(last[str(replica)][name]), rel=1e-4)


def test_the_checkpoint_holds_every_replica(run):
    agents = [APO.load(run, replica=replica) for replica in range(4)]
    assert [a.seed for a in agents] == [0, 1, 0, 1]
    assert [a.config.value_constraint for a in agents] == [0.0, 0.0, 0.3, 0.3]
    assert {a.steps_ for a in agents} == {128}


def test_a_seed_or_setting_alone_gives_the_rows_it_gives_among_others(run, tmp_path):
    options = ["--seed", "1", "--value-constraint", "0.3"]
    assert main(train_arguments(tmp_path / "alone", *options)) == 0
    for name in ("metrics.csv", "evaluations.csv"):
        alone, among = (read_csv(folder / name) for folder in (tmp_path / "alone", run))
        among = [row for row in among if row["replica"] == "3"]
        for row in alone + among:
            row.pop("steps_per_second", None)
            row.pop("replica")
        assert alone == among
    alone, among = APO.load(tmp_path / "alone"), APO.load(run, replica=3)
    assert bits(alone.snapshot) == bits(among.snapshot)


def test_training_of_one_seed_ends_with_what_it_learned(longrun, tmp_path):
    result = longrun(*train_arguments(tmp_path / "run"))
    assert (result.status, result.err) == (0, "")
    what, figures, saved = result.out.splitlines()[-3:]
    assert "on Drift-v0, seed 0, 128 steps" in what
    assert figures.startswith("average reward ") and "per step [" in figures
    assert saved == f"saved: {tmp_path / 'run'}   next: longrun plot {tmp_path / 'run'}"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((), True),
        (("--gae-lambda", "0.8"), False),
        (("--preset", "paper", "--action-bounds", "clip"), False),
    ],
)
def test_a_run_too_short_for_lambda_to_adapt_says_so(longrun, tmp_path, more, told):
    sizes = ("--num-envs", "1", "--rollout-steps", "100", "--minibatch-size", "50")
    where = ("--env", "Drift-v0", "--workers", "0", "--out", str(tmp_path / "run"))
    result = longrun("train", "apo", *where, "--steps", "200", "--no-eval", *sizes, *more)
    assert (result.status, result.err) == (0, "")
    assert ("note: short run, λ fixed at 0.9" in result.out) == told


def test_a_run_without_evaluations_prints_no_table_but_how_to_evaluate(longrun, tmp_path):
    result = longrun(*train_arguments(tmp_path / "run", "--no-eval"))
    assert (result.status, result.err) == (0, "")
    run = tmp_path / "run"
    assert result.out.splitlines() == [
        f"writing to {run}, up to 128 steps",
        f"the policy was not evaluated; longrun evaluate {run} does so",
    ]
    assert not (tmp_path / "run" / "evaluations.csv").exists()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["final"] == [{"seed": 0, "average_reward": None, "episode_return": None}]


def test_a_never_ending_environment_can_be_trained_evaluated_and_plotted(longrun, tmp_path):
    out = tmp_path / "run"
    assert longrun(*train_arguments(out, "--env", "EndlessDrift-v0")).status == 0
    assert longrun("evaluate", out, "--steps", 50).status == 0
    assert longrun("plot", out, "--out", tmp_path / "curves.png").status == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["final"][0]["episode_return"] is None
    assert math.isfinite(summary["final"][0]["average_reward"])


def test_without_a_folder_a_run_finds_a_free_one(longrun, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = [a for a in train_arguments(Path("-"), "--no-eval") if a not in ("--out", "-")]
    for name in ("apo-Drift-v0", "apo-Drift-v0-2"):
        assert longrun(*command).status == 0
        assert (tmp_path / "runs" / name / "summary.json").exists()


def test_tensorboard_files_are_written_on_request(longrun, tmp_path):
    assert longrun(*train_arguments(tmp_path / "run", "--no-eval", "--tensorboard")).status == 0
    assert list((tmp_path / "run").rglob("events.out.tfevents.*"))


# Evaluating and plotting.


def test_evaluate_reports_every_replica(longrun, run):
    before = files_of(run)
    result = longrun("evaluate", run, "--steps", 100)
    assert (result.status, result.err) == (0, "")
    for replica in range(4):
        assert f"{replica} (seed {replica % 2})" in result.out
    assert result.out.count("value_constraint=0.0") == result.out.count("value_constraint=0.3") == 2
    assert files_of(run) == before


def test_evaluate_names_the_setting_of_each_replica_of_a_grid_in_json(longrun, run, tmp_path):
    found = json.loads(longrun("evaluate", run, "--steps", 100, "--json").out)
    settings = [each["setting"] for each in found]
    assert settings == [{"value_constraint": nu} for nu in (0.0, 0.0, 0.3, 0.3)]
    grid = ["--grid", "limits=terminated=0.1,terminated=0.01"]
    assert longrun(*train_arguments(tmp_path / "run", "--no-eval"), *grid).status == 0
    found = json.loads(longrun("evaluate", tmp_path / "run", "--steps", 100, "--json").out)
    settings = [each["setting"] for each in found]
    assert settings == [{"limits": {"terminated": rate}} for rate in (0.1, 0.01)]


def test_evaluate_names_no_setting_where_there_is_one(longrun, tmp_path):
    assert longrun(*train_arguments(tmp_path / "run", "--no-eval", "--seeds", "2")).status == 0
    result = longrun("evaluate", tmp_path / "run", "--steps", 100)
    assert "=" not in result.out
    found = json.loads(longrun("evaluate", tmp_path / "run", "--steps", 100, "--json").out)
    assert not any("setting" in each for each in found)


def test_evaluate_takes_a_saved_agent_too(longrun, tmp_path):
    APO("Drift-v0", hidden_sizes=(8,)).save(tmp_path / "agent")
    result = longrun("evaluate", tmp_path / "agent", "--steps", 100)
    assert (result.status, result.err) == (0, "")
    assert "seed 0" in result.out


def test_plot_draws_png_and_svg_and_prints_the_table(longrun, run, tmp_path):
    result = longrun("plot", run, "--out", tmp_path / "deep" / "curves.png")
    assert (result.status, result.err) == (0, "")
    require_picture(tmp_path / "deep" / "curves.png")
    table = "".join(character for character in result.out if character not in "│ \n")
    assert "value_constraint=0.0" in table, "labels of settings are never shortened"
    assert "value_constraint=0.3" in table
    assert longrun("plot", run, run, "--out", tmp_path / "curves.svg").status == 0
    require_picture(tmp_path / "curves.svg")
