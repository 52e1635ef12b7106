"""README, docs/figures.md and the pages of results quote what the files of results hold."""

from __future__ import annotations

import csv
import importlib.util
import re
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from longrun.cli import compare
from longrun.lab.results.statistics import COVERED

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "src" / "longrun" / "lab" / "report"


@pytest.fixture
def quoted(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location(
        "quoted_figures", ROOT / "benchmarks" / "quoted_figures.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_documents_agree_with_the_files(quoted: ModuleType) -> None:
    for name in quoted.DOCUMENTS:
        text = (ROOT / name).read_text()
        assert quoted.with_figures(text) == text, f"make figures writes {name}"


def test_every_figure_is_quoted_and_every_block_is_closed(quoted: ModuleType) -> None:
    texts = {name: (ROOT / name).read_text() for name in quoted.DOCUMENTS}
    marks = {name: re.findall(r"<!-- figures: ([\w-]+) -->", text) for name, text in texts.items()}
    assert {mark for found in marks.values() for mark in found} == set(quoted.FIGURES)
    for name, text in texts.items():
        assert len(quoted.BLOCK.findall(text)) == len(marks[name]) > 0


def test_numbers_that_contradicted_each_other_are_rows_of_one_table(quoted: ModuleType) -> None:
    for name in ("docs/figures.md", "results/RESULTS.md"):
        assert quoted.swimmer() in (ROOT / name).read_text()
    assert "| 149 (5) | 94 (5) |" in quoted.swimmer()
    assert "| 256 (10) | 135 (10) |" in quoted.swimmer()


def test_ten_seeds_are_pooled_where_ten_exist(quoted: ModuleType) -> None:
    tuned = quoted.tuned_results
    for task in tuned.TASKS:
        seeds = {key: [int(r["seed"]) for r in own] for key, own in tuned.contestants(task).items()}
        assert seeds.pop(tuned.APO) == list(range(10))
        assert list(seeds.values()) == [list(range(5))] * 3
    scores = tuned.scores_of(tuned.rows_of_contestant(tuned.APO))
    assert scores.shape == (10, 6) and np.isfinite(scores).all()


def test_scores_are_relative_to_ppo_on_the_same_tasks(quoted: ModuleType) -> None:
    tuned = quoted.tuned_results
    own = tuned.scores_of(tuned.rows_of_contestant(tuned.REFERENCE))
    np.testing.assert_allclose(own.mean(0), 1)
    for name in ("README.md", "docs/figures.md", "results/one-setting.md"):
        assert "Tianshou" not in (ROOT / name).read_text()


def test_scores_are_those_of_the_committed_evaluations(quoted: ModuleType) -> None:
    """Of APO's seeds 0 to 4 and of all runs of PPO: the last three evaluations, and the best."""
    folder = ROOT / "results" / "tuned-3m"
    evaluations = defaultdict(list)
    for name in ("evaluations.csv", "evaluations-ppo.csv"):
        for row in quoted.rows_of(folder / name):
            point = int(row["step"]), float(row["episode_return"])
            evaluations[row.get("discount", ""), row["env"], row["seed"]].append(point)
    scores = quoted.rows_of(folder / "scores.csv")
    assert {(r["discount"], r["env"], r["seed"]) for r in scores} == set(evaluations)
    for row in scores:
        points = evaluations[row["discount"], row["env"], row["seed"]]
        assert [step for step, _ in points] == list(range(100_000, 3_000_001, 100_000))
        returns = [value for _, value in points]
        assert abs(np.mean(returns[-3:]) - float(row["episode_return"])) < 0.1
        assert abs(max(returns) - float(row["best_checkpoint"])) < 0.1


def test_throughput_is_compared_with_the_fastest_way_to_run_a_peer(quoted: ModuleType) -> None:
    rates = {
        "longrun": [900, 1000],
        "sb3, one process, 1 thread": [100, 110],
        "sb3, subprocesses, 2 threads": [300, 200],
        "sbx, one process, 1 thread": [999, 999],
    }
    rows = [
        {"case": "cheetah", "env": "HalfCheetah-v5", "contestant": name}
        | {"round": f"{k}", "steps_per_second": f"{rate}", "memory_mb": ""}
        for name, each in rates.items()
        for k, rate in enumerate(each, 1)
    ]
    goal = next(goal for goal in quoted.throughput.GOALS if goal.theirs == "sb3")
    assert goal.values(rows) == ("sb3, subprocesses, 2 threads", [3, 5])
    rows[5]["steps_per_second"] = ""  # it failed in the second round
    assert goal.values(rows) == ("sb3, subprocesses, 2 threads", [3])
    assert goal.values(rows[:2]) == ("sb3", [])


def test_the_page_for_users_of_a_peer_quotes_the_ratios(quoted: ModuleType) -> None:
    page = (ROOT / "docs" / "from-stable-baselines3.md").read_text()
    for peer, ratio, _ in quoted.times_peers():
        assert f"{ratio} times {peer}" in page


def test_what_intervals_cover_is_said_as_it_was_measured() -> None:
    with (ROOT / "results" / "interval-coverage.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["seeds"] == "5"]
    whose = {
        "mean": [r for r in rows if (r["method"], r["tasks"]) == ("Student", "1")],
        "iqm": [r for r in rows if (r["statistic"], r["method"]) == ("iqm", "longrun")],
        "improvement": [
            r for r in rows if (r["statistic"], r["method"]) == ("P(better)", "longrun")
        ],
    }
    pages = [compare.DESCRIPTION, (REPORT / "page.tables.js").read_text()]
    for name, found in whose.items():
        covered = [100 * float(row["coverage"]) for row in found]
        assert len(covered) in (3, 6, 15)
        assert f"{min(covered):.0f} to {max(covered):.0f} %" == COVERED[name]
        said = [COVERED[name] in " ".join(page.split()) for page in pages]
        assert said == [name != "mean", True]


def test_a_changed_number_is_noticed(quoted: ModuleType) -> None:
    text = (ROOT / "README.md").read_text()
    changed = re.sub(r"(\| HalfCheetah-v5 \| )\d", r"\g<1>0", text)
    assert changed != text
    assert quoted.with_figures(changed) == text
