"""A short form of benchmarks/faults.py, which makes thousands of faults."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "faults.py"


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_end_every_command_with_one_line(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("faults", PROGRAM)
    assert spec is not None and spec.loader is not None
    faults = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(faults)
    case = faults.damaged_files(tmp_path)
    assert [why for seed in range(8) for why in case(seed)] == []


@pytest.mark.parametrize(
    ("name", "content"),
    [("failures.json", '[null, "x", []]'), ("failures.json", "3"), ("sweep.json", '{"runs": 5}')],
)
def test_a_report_leaves_out_what_it_cannot_read(tmp_path: Path, name: str, content: str) -> None:
    from fake_runs import fake_sweep, rising
    from longrun.results.report.page import write_report

    sweep = fake_sweep(tmp_path / "sweep", {"a": (rising(1), {})})
    (sweep / name).write_text(content)
    write_report(sweep, tmp_path / "page.html", frames=False)
    assert (tmp_path / "page.html").stat().st_size > 10_000
