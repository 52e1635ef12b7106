"""The paper's experiments: their runs, their figures, and one of them from start to end."""

from __future__ import annotations

import csv
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from matplotlib.figure import Figure

from fake_runs import fake_run, rising
from fake_workers import InlineWorkers, content
from longrun import read_results
from longrun.cli import main
from longrun.lab.paper import experiments
from longrun.lab.paper.authors import Authors
from longrun.lab.paper.experiments import SCALES, Scale, runs_of, tasks_of
from longrun.lab.paper.figures import draw, lines_of
from longrun.lab.sweeps import run_sweep as start
from longrun.lab.sweeps.sweep_folder import SweepFolder

KIND = "tiny_envs:KindDrift-v0"


@pytest.mark.parametrize(
    ("experiment", "scale", "count"),
    [
        ("figure1", "smoke", 30),  # one of APO and four discounts of PPO on three tasks, two seeds
        ("figure1", "laptop", 75),
        ("figure1", "paper", 255),
        ("figure2", "smoke", 30),
        ("appendix", "smoke", 60),
        ("grid", "smoke", 456),  # 60 of APO and 16 of PPO on three tasks
        ("grid", "paper", 1140),
    ],
)
def test_how_many_runs_an_experiment_has(experiment, scale, count):
    runs = runs_of(experiment, SCALES[scale], tasks_of(experiment))
    assert len(runs) == count
    assert len({run.name for run in runs}) == count
    assert {run.spec.steps for run in runs} == {SCALES[scale].steps}
    assert set(Counter(run.spec.seeds[0] for run in runs)) == set(range(SCALES[scale].seeds))


def test_figure1_starts_with_the_first_seed_of_every_setting():
    runs = runs_of("figure1", SCALES["smoke"], tasks_of("figure1", ["Ant-v5"]))
    assert [run.name for run in runs[:5]] == [
        "Ant-v5_apo_paper_gae_lambda=0.95_gain_step_size=0.1_value_constraint=0.3_seed0",
        "Ant-v5_ppo_paper_discount=0.9_gae_lambda=0.95_seed0",
        "Ant-v5_ppo_paper_discount=0.95_gae_lambda=0.95_seed0",
        "Ant-v5_ppo_paper_discount=0.99_gae_lambda=0.95_seed0",
        "Ant-v5_ppo_paper_discount=0.999_gae_lambda=0.95_seed0",
    ]
    assert runs[0].spec.eval_every == 4000


def test_figure2_has_five_constraints_of_the_best_setting():
    runs = runs_of("figure2", SCALES["smoke"], ["Swimmer-v5"])
    configs = [config for run in runs for config in run.spec.configs]
    assert [c.value_constraint for c in configs] == [0.0, 0.03, 0.1, 0.3, 1.0] * 2
    assert {(c.gae_lambda, c.gain_step_size) for c in configs} == {(0.99, 0.03)}


def test_longer_scales_evaluate_every_20_000_steps():
    assert {SCALES[name].eval_every for name in ("laptop", "paper")} == {20_000}
    [run, *_] = runs_of("figure1", SCALES["laptop"], ["Ant-v5"])
    assert run.spec.eval_every == 20_000


def test_as_authors_has_their_algorithms_and_their_discount_where_they_had_one():
    for experiment in ("figure1", "figure2"):
        runs = runs_of(experiment, SCALES["smoke"], tasks_of(experiment), "authors")
        assert {run.spec.preset for run in runs} == {"paper"}
        assert all("-authors_" in run.name for run in runs)
        for run in runs:
            [config] = run.spec.configs
            assert isinstance(config, Authors)
            assert config.action_bounds == "raw"
            if run.spec.algorithm == "apo-authors":
                is_ant = run.spec.env.startswith("Ant-v5")
                assert config.value_discount == (1.0 if is_ant else 0.999)
                no_forces = "cfrc_ext_in_observation=false&contact_cost_weight=0"
                assert (no_forces in run.spec.env) == is_ant
        usual = runs_of(experiment, SCALES["smoke"], tasks_of(experiment))
        assert {run.spec.algorithm for run in usual} <= {"apo", "ppo"}
        assert all("value_discount" not in run.name for run in usual)
        assert not any("?" in run.spec.env for run in usual)
    grid = runs_of("grid", SCALES["smoke"], tasks_of("grid"), "authors")
    assert {run.spec.algorithm for run in grid} == {"apo-authors", "ppo-authors"}
    assert all("value_discount" not in run.name for run in grid), "theirs had none"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["figure1", "--as", "author"], "unknown --as 'author'; did you mean authors"),
        (["figure3"], "unknown experiment 'figure3'; did you mean figure2, figure1"),
        (["figure1", "--scale", "papr"], "unknown scale 'papr'; did you mean paper"),
        (["figure1", "--env", "Hoper-v5"], "unknown task 'Hoper-v5'"),
        (["figure1", "--env", "Ant-v5", "Ant-v5"], "twice; list each value and environment once"),
        (["figure1", "--workers", "0"], "workers=0 must be 1 or more"),
        ([], "the following arguments are required: experiment"),
    ],
)
def test_wrong_input_is_refused_in_one_line(arguments, expected, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *arguments]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1


def test_another_way_is_another_sweep(tmp_path, capsys):
    SweepFolder.create(tmp_path, runs_of("figure1", SCALES["smoke"], ["Swimmer-v5"]))
    command = ["reproduce", "figure1", "--scale", "smoke", "--env", "Swimmer-v5"]
    assert main([*command, "--as", "authors", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "holds another sweep" in error and "--preset" not in error


@pytest.mark.parametrize(
    "way",
    [
        pytest.param([], id="paper"),
        pytest.param(["--as", "authors"], id="authors", marks=pytest.mark.slow),
    ],
)
def test_an_experiment_is_trained_and_drawn_and_resumed(
    way, tmp_path, capsys, monkeypatch, request
):
    if not way:
        request.getfixturevalue("laid_out")
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)
    monkeypatch.setitem(experiments.TASKS, "figure2", (KIND,))
    monkeypatch.setattr(experiments, "CONSTRAINTS", (0.0, 0.1))
    monkeypatch.setitem(SCALES, "smoke", Scale(steps=2000, seeds=2, eval_every=2000))
    out = tmp_path / "sweep"
    command = ["reproduce", "figure2", "--scale", "smoke", "--out", str(out), "--quiet", *way]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert f"4 of 4 runs are finished in {out}" in printed
    wanted = {"figure2.png", "figure2.pdf", "figure2.svg", "figure2.csv", "evaluations.csv"}
    assert {line.rpartition("/")[2] for line in printed.splitlines() if "wrote " in line} == wanted
    assert wanted < {path.name for path in out.iterdir()}
    before = content(out / "runs")
    assert main(["sweep", "--resume", "--out", str(out), "--quiet"]) == 0
    assert content(out / "runs") == before
    for name in SweepFolder.open(out).runs:
        summary = json.loads((out / "runs" / name / "summary.json").read_text())
        assert summary["steps"] == 2000
    written = json.loads((out / "runs" / name / "config.json").read_text())
    assert written["algorithm"] == ("apo-authors" if way else "apo")
    other = ["--as", "paper"] if way else ["--as", "authors"]
    assert main([*command[: len(command) - len(way)], *other]) == 2
    assert "holds another sweep" in capsys.readouterr().err


class Drawn(NamedTuple):
    """An experiment of two seeds that was never trained; the n-th run rises to reward n."""

    folder: SweepFolder
    written: list[Path]
    saved: list[Figure]
    """Every figure that was saved, once for each file."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Draws an experiment, once for all tests."""

    @cache
    def draw_experiment(experiment: str, way: str = "paper") -> Drawn:
        scale = Scale(1000, seeds=2, whole_grid=True)
        runs = runs_of(experiment, scale, ["Ant-v5"], way)
        folder = SweepFolder.create(tmp_path_factory.mktemp("drawn") / experiment, runs)
        for height, run in enumerate(runs):
            spec = run.spec
            more = {"algorithm": spec.algorithm, "env": spec.env, "options": [vars(*spec.configs)]}
            more |= {"preset": spec.preset, "seeds": spec.seeds}
            fake_run(folder.folder(run.name), rising(height), **more)
        figures: list[Figure] = []
        save = Figure.savefig

        def record(self: Figure, *arguments: Any, **options: Any) -> None:
            figures.append(self)
            save(self, *arguments, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Figure, "savefig", record)
            return Drawn(folder, draw(experiment, folder.path), figures)

    return draw_experiment


LABELS = ["episode return", "reward per step in episodes", "average reward"]
PANELS: dict[str, list[tuple[str, str]]] = {
    "figure1": [("Ant-v5", LABELS[0])],
    "appendix": [("Ant-v5", LABELS[0]), ("", LABELS[1]), ("", LABELS[2])],
    "grid": [(f"Ant-v5: APO, alpha = {alpha}", "lambda") for alpha in ("0.03", "0.1", "0.3")]
    + [("Ant-v5: PPO", "lambda")],
}


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(
    "experiment",
    [pytest.param(name, marks=pytest.mark.slow if name == "grid" else ()) for name in PANELS],
)
def test_every_experiment_has_its_figure_and_tables(experiment, drawn):
    folder, written, saved = drawn(experiment)
    assert [path.suffix for path in written] == [".png", ".pdf", ".svg", ".csv", ".csv"]
    figure, *again = saved
    assert again == [figure, figure]
    assert [(a.get_title(), a.get_ylabel()) for a in figure.axes] == PANELS[experiment]
    starts = [path.read_bytes()[:5] for path in written[:3]]
    assert starts == [b"\x89PNG\r", b"%PDF-", b"<?xml"]
    table, evaluations = (path.read_text().splitlines() for path in written[3:])
    assert len(table) - 1 == len(folder.runs) / 2
    assert len(evaluations) - 1 == 10 * len(folder.runs)


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(("way", "title"), [("paper", ""), ("authors", "as in the authors' code")])
def test_figure_and_tables_say_in_which_way_an_experiment_was_run(way, title, drawn):
    _, written, [figure, *_] = drawn("figure1", way)
    assert figure.get_suptitle() == title
    for table in written[3:]:
        with table.open(newline="") as file:
            assert {row["way"] for row in csv.DictReader(file)} == {way}


def test_figure1_draws_five_settings(drawn):
    [figure, *_] = drawn("figure1").saved
    colours = {line.get_color() for line in figure.axes[0].get_lines()}
    assert len(colours) == 5


def test_the_grid_shows_the_final_return_of_each_setting(drawn):
    """The n-th run rises to n: seeds of the k-th PPO setting to 60 + k and 76 + 60 + k."""
    [figure, *_] = drawn("grid").saved
    [image] = figure.axes[-1].get_images()
    expected = [[10 * (98 + 4 * gamma + lam) for gamma in range(4)] for lam in range(4)]
    np.testing.assert_allclose(image.get_array(), expected)


def test_a_line_of_figure1_is_the_best_setting_of_its_discount(drawn):
    configs = [line.config for line in lines_of(read_results(drawn("figure1").folder.path))]
    assert Counter(config.algorithm for config in configs) == {"apo": 1, "ppo": 4}
    ppo = [config for config in configs if config.algorithm == "ppo"]
    assert [config.discount for config in ppo] == [0.9, 0.95, 0.99, 0.999]
    assert {config.gae_lambda for config in ppo} == {0.99}, "the last run has the highest reward"
