"""The live table of a sweep."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from fake_workers import ENV, some_runs
from longrun.lab.sweeps import live_table as live_module
from longrun.lab.sweeps.live_table import Live


@pytest.fixture
def clock(monkeypatch):
    """The time that the live table reads; tests set it."""
    now = [0.0]
    monkeypatch.setattr(live_module.time, "monotonic", lambda: now[0])
    return now


def progress(steps: int, rate: float = 1.0) -> dict[str, Any]:
    return {"kind": "progress", "steps": steps, "steps_per_second": rate, "reward": 0.0}


def test_time_left_is_estimated_from_the_speed_on_each_environment(clock):
    runs = some_runs(grid={}, steps=100, seeds=range(3))
    runs += some_runs(env="B-v0", grid={}, steps=9)
    shown = Live("", wanted=False, log=False)
    for run in runs:
        shown.add(run.name, run.spec, finished=False)
    slow = [run for run in runs if run.spec.env == ENV]
    assert shown.seconds_left() is None
    shown.started(0, slow[0].name)
    shown.started(1, slow[1].name)
    shown.progress(0, progress(0))
    shown.progress(1, progress(80))  # a resumed run
    clock[0] = 10.0
    assert shown.seconds_left() is None  # nothing has been done yet
    shown.progress(0, progress(50))
    shown.progress(1, progress(100))
    # 70 steps took 2 x 10 s; left are 50 + 100 of this, 18 of another environment, for 2 workers.
    assert shown.seconds_left() == pytest.approx(168 * 20 / 70 / 2)
    shown.ended(1, "done")
    shown.started(1, slow[2].name)
    assert shown.seconds_left() == pytest.approx(100 * 20 / 70)  # of the run that has just started


def test_time_left_is_at_least_that_of_the_longest_run(clock):
    long, short = some_runs(grid={}, steps=100)
    shown = Live("", wanted=False, log=False)
    for slot, run in enumerate((long, short)):
        shown.add(run.name, run.spec, finished=False)
        shown.started(slot, run.name)
    clock[0] = 10.0
    shown.progress(0, progress(0))
    shown.progress(0, progress(10))
    shown.progress(1, progress(0))
    shown.progress(1, progress(90))
    assert shown.seconds_left() == pytest.approx(90 * 20 / 100)


def test_time_left_includes_runs_that_a_search_will_suggest(clock, capsys):
    (run,) = some_runs(grid={}, steps=100, seeds=[0])
    shown = Live("", wanted=False)
    shown.add(run.name, run.spec, finished=False)
    shown.expect({ENV: (3, 300)})
    shown.started(0, run.name)
    clock[0] = 10.0
    shown.ended(0, "done")
    assert shown.seconds_left() == pytest.approx(30.0)
    assert capsys.readouterr().out == f"1 of 4 runs finished  {run.name}: done (10 s)\n"


def test_the_table_has_a_row_for_each_run_and_a_summary(clock):
    (run,) = some_runs(grid={}, steps=100, seeds=[0])
    shown = Live("sweep", wanted=True)
    shown.add(run.name, run.spec, finished=False)
    shown.started(0, run.name)
    shown.progress(0, progress(0, rate=0.0))
    clock[0] = 600.0
    shown.progress(0, progress(25, rate=2500.0))
    console = Console(width=100)
    with console.capture() as captured:
        console.print(shown.table())
    text = captured.get()
    for word in (run.name, "25 %", "2,500", "0 of 1 runs finished; 2,500 steps/s; 30 min left"):
        assert word in text
