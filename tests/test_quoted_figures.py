"""README, docs/figures.md and the pages of results quote what the files of results hold."""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from longrun.cli import compare
from longrun.results.statistics import COVERED

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "src" / "longrun" / "results" / "report"


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
