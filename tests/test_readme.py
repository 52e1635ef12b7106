"""What the README shows runs, shortened: every Python block, every `longrun` command in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fake_workers import InlineWorkers
from longrun import cli
from longrun.sweeps import run_sweep as start

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^longrun .*$", README, re.MULTILINE)


def shortened(text: str) -> str:
    """Fewer steps, the same code."""
    text = text.replace("300_000", "4_000").replace("100_000", "4_000").replace("10_000", "1_000")
    text = text.replace("--preset queueing", "--preset queueing --num-envs 8 --minibatch-size 512")
    text = text.replace("--seeds 5", "--seeds 1").replace("--trials 30", "--trials 1")
    text = text.replace("--env Swimmer-v5 HalfCheetah-v5", "--env Swimmer-v5 --eval-steps 1000")
    text = text.replace("--preset tuned", "--preset tuned --eval-steps 1000")
    text = text.replace("longrun report", "longrun report --no-frames")
    text = text.replace("solve criss-cross --regime BM", "solve criss-cross --regime IL")
    return re.sub(r"steps (\d+)", lambda m: f"steps {min(int(m[1]) // 100, 5000)}", text)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_readme_has_snippets_and_commands():
    assert len(PYTHON) == 6
    commands = {command.split()[1] for command in COMMANDS}
    assert commands == set(cli.COMMANDS)


@pytest.mark.parametrize("snippet", PYTHON)
def test_python_snippets_run(snippet, elsewhere, capsys):
    exec(compile(shortened(snippet), "README.md", "exec"), {})
    if "log_dir" in snippet:
        assert (elsewhere / "runs" / "swimmer" / "summary.json").exists()
    if "print" in snippet:
        assert capsys.readouterr().out


def test_commands_run_in_the_order_shown(elsewhere, capsys, monkeypatch):
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)
    for command in COMMANDS:
        words = shortened(command).split()[1:]
        if "--ray" in words or words[0] == "reproduce":
            continue  # tested in tests/sweeps/test_sweep_ray.py and tests/paper
        if words[0] in ("train", "sweep") and "--steps" not in words:
            words += ["--steps", "2000"]
        assert cli.main(words) == 0, (command, capsys.readouterr().err)
    for name in ("curves.png", "curves.pdf", "table.tex", "sweep.html"):
        assert (elsewhere / name).exists()


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, re.MULTILINE))
def test_make_has_the_targets(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()
