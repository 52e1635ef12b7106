"""README, docs/figures.md and the pages of results quote what the files of results hold."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


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


def test_a_changed_number_is_noticed(quoted: ModuleType) -> None:
    text = (ROOT / "README.md").read_text()
    changed = re.sub(r"(\| HalfCheetah-v5 \| )\d", r"\g<1>0", text)
    assert changed != text
    assert quoted.with_figures(changed) == text
