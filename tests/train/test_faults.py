"""A short form of benchmarks/faults, which makes thousands of faults."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fake_runs import change_config, fake_run, fake_sweep, rising
from longrun import FolderError, read_results
from longrun.base.files import read_json, write_json
from longrun.cli import main

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def harness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind, each", [("damaged_files", 1), pytest.param("hostile_files", 22, marks=pytest.mark.slow)]
)
def test_files_of_others_end_every_command_with_one_line(kind, each, tmp_path) -> None:
    """Some of the mutated files, and one of each 22 hostile ones."""
    from importlib import import_module

    checks = islice(import_module(f"faults.{kind}").checks(tmp_path), 0, 5 * each, each)
    assert [(name, why) for name, check in checks for why in check()] == []


class Crash(BaseException):
    """The process is killed at this moment: neither this nor a later operation is done."""


class Crashing:
    """Refuses all file operations in a folder from one of them on, as if the process were dead."""

    def __init__(self) -> None:
        self.folder, self.left, self.operations = "", 0, 0
        sys.addaudithook(self)  # which cannot be removed, but without a folder it does nothing

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.folder or event not in ("open", "os.rename", "os.remove", "os.mkdir"):
            return
        path = arguments[0]
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if not isinstance(path, int) and os.fspath(path).startswith(self.folder):
            self.operations += 1
            if self.operations > self.left:
                raise Crash


@pytest.fixture(scope="module")
def crashing() -> Iterator[Crashing]:
    hook = Crashing()
    yield hook
    hook.folder = ""


def test_a_run_that_is_killed_at_a_file_operation_can_be_resumed(crashing, tmp_path) -> None:
    from faults.processes import TINY, differences, resume, train

    whole = tmp_path / "whole"
    assert main(train(TINY, whole, 4, 2)) == 0

    def crash_after(operations: int, run: Path) -> None:
        crashing.folder, crashing.left, crashing.operations = str(run), operations, 0
        try:
            main(train(TINY, run, 4, 2))
        finally:
            crashing.folder = ""

    crash_after(1000, tmp_path / "counted")
    total = crashing.operations
    assert 20 <= total < 60
    for operations in range(0, total, 4):
        run = tmp_path / str(operations)
        with pytest.raises(Crash):
            crash_after(operations, run)
        assert main(resume(run, train(TINY, run, 4, 2))) == 0
        assert (operations, list(differences(run, whole))) == (operations, [])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("failures.json", '[null, "x", []]'),
        ("failures.json", "3"),
        ("failures.json", '[{"run": "a", "error": 5, "attempts": 1}]'),
        ("sweep.json", '{"runs": 5}'),
        ("sweep.json", '{"runs": {}, "command": "longrun"}'),
    ],
)
def test_a_report_of_damaged_files_is_one_line(tmp_path, name, content, capsys) -> None:
    sweep = fake_sweep(tmp_path / "sweep", {"a": (rising(1), {})})
    (sweep / name).write_text(content)
    assert main(["report", str(sweep), "--no-frames"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("longrun: ") and f"{name}' is damaged" in line


@pytest.mark.parametrize("changed", [{"env_source": {"identity": 3}}, {"command": None}])
def test_what_config_json_says_of_its_making_is_checked(tmp_path, changed) -> None:
    run = change_config(fake_run(tmp_path / "run", rising(1)), **changed)
    with pytest.raises(FolderError, match=r"config.json' is damaged: it has no valid "):
        read_results(run)


def test_an_entry_that_may_be_none_may_be_missing(tmp_path) -> None:
    run = fake_run(tmp_path / "run", rising(1))
    content = read_json(run / "config.json")
    del content["name"]
    write_json(run / "config.json", content)
    assert [setting.label for setting in read_results(run)] == ["APO"]
