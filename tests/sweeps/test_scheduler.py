"""The scheduler of a sweep, with scripted workers."""

from __future__ import annotations

import json

import pytest

from fake_workers import (
    ScriptedWorkers,
    short_runs,
)
from longrun.lab.sweeps.live_table import Live
from longrun.lab.sweeps.plan import named
from longrun.lab.sweeps.scheduler import Search, Sweep
from longrun.lab.sweeps.sweep_folder import SweepFolder
from longrun.lab.sweeps.worker_process import progress_message
from longrun.learning.runs.spec import RunSpec

DIED = {"kind": "died", "error": "the worker died"}
WRONG = {"kind": "failed", "error": "ValueError: no", "again": False, "traceback": "", "errno": 2}


@pytest.mark.parametrize(
    ("retries", "script", "started", "failures"),
    [
        (1, {}, [0, 1, 2], []),
        (1, {0: [DIED]}, [0, 1, 2, 0], []),
        (0, {0: [DIED]}, [0, 1, 2], [("the worker died", 1)]),
        (2, {0: [DIED] * 3}, [0, 1, 2, 0, 0], [("the worker died", 3)]),
        (2, {0: [WRONG]}, [0, 1, 2], [("ValueError: no", 1)]),
    ],
)
def test_failed_runs_are_retried_after_the_others(retries, script, started, failures, tmp_path):
    folder = SweepFolder.create(tmp_path / "sweep", short_runs(3))
    workers = ScriptedWorkers(1, script)
    outcome = Sweep(folder, workers, Live("", wanted=False, log=False), retries).run()
    assert [seed for _, seed in workers.started[:-1]] == started
    assert workers.started[-1] == "closed"
    assert [(f.error, f.attempts) for f in outcome.failures] == failures
    assert len(outcome.finished) == 3 - len(failures)
    assert folder.read_failures() == outcome.failures


def test_every_slot_is_used_and_runs_that_were_started_come_first(tmp_path):
    folder = SweepFolder.create(tmp_path / "sweep", short_runs(4))
    folder.folder([*folder.runs][3]).mkdir(parents=True)
    workers = ScriptedWorkers(2, {})
    Sweep(folder, workers, Live("", wanted=False, log=False)).run()
    assert workers.started == [(0, 3), (1, 0), (0, 1), (1, 2), "closed"]


def test_a_search_that_suggests_a_finished_run_is_asked_again(tmp_path):
    runs = short_runs(3)
    folder = SweepFolder.create(tmp_path / "sweep", [])
    for run in runs[:2]:
        folder.folder(run.name).mkdir(parents=True)
        (folder.folder(run.name) / "summary.json").write_text('{"steps": 8}')

    class OneByOne(Search):
        def __init__(self) -> None:
            self.left, self.ended = list(runs), []

        def suggest(self, count: int) -> dict[str, RunSpec]:
            return named([self.left.pop(0)] if self.left else [])

        def finished(self, name: str) -> None:
            self.ended.append(name)

    search, workers = OneByOne(), ScriptedWorkers(1, {})
    Sweep(folder, workers, Live("", wanted=False, log=False), search=search).run()
    assert workers.started == [(0, 2), "closed"]
    assert search.ended == [run.name for run in runs]
    assert folder.runs == named(runs)


def test_messages_are_json_even_if_a_reward_is_not_finite():
    message = progress_message(3)
    assert str(json.loads(json.dumps(message))["reward"]) == "nan"
