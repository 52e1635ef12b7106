"""What docs/theory.md shows is what its code prints, from top to bottom."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from longrun.cli import main

DOCS = Path(__file__).parents[1] / "docs"
THEORY = (DOCS / "theory.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", THEORY, re.DOTALL)
COMMANDS = re.findall(r"```console\n\$ longrun (.*?)\n(.*?)```", THEORY, re.DOTALL)


def line_of(code: str) -> int:
    return THEORY[: THEORY.index(code)].count("\n") + 1


@pytest.mark.slow
def test_every_block_prints_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for code, shown in BLOCKS:
        printed = io.StringIO()
        padding = "\n" * (line_of(code) - 1)  # so that errors name the line of the page
        with redirect_stdout(printed):
            exec(compile(padding + code, "docs/theory.md", "exec"), namespace)
        assert printed.getvalue() == shown, f"docs/theory.md, line {line_of(code)}"


def test_every_text_block_follows_code():
    assert len(re.findall(r"^```text$", THEORY, re.MULTILINE)) == sum(bool(t) for _, t in BLOCKS)


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_commands_print_what_is_shown(command, shown, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(command.split()) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in shown.splitlines() if line != "..." and line not in printed] == []


@pytest.mark.parametrize("picture", re.findall(r"!\[[^]]*\]\((.+?)\)", THEORY))
def test_pictures_are_there_and_small(picture):
    assert (DOCS / picture).stat().st_size < 120_000
