"""README and guide run, shortened: every Python block, every `longrun` command in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fake_workers import InlineWorkers
from longrun import cli
from longrun.sweeps import run_sweep as start

ROOT = Path(__file__).parents[1]
PAGES = {name: (ROOT / name).read_text() for name in ("README.md", "docs/guide.md")}
PYTHON = [
    (page, block)
    for page, text in PAGES.items()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
]
COMMANDS = {page: re.findall(r"^longrun .*$", text, re.MULTILINE) for page, text in PAGES.items()}


def shortened(text: str) -> str:
    """Fewer steps, environments, settings and states; the same code. What a law of many states owes
    to rounding has tests of its own (tests/tabular/test_precision.py).
    """
    text = text.replace("600_000", "4_000").replace("300_000", "4_000")
    text = text.replace("100_000", "4_000").replace("10_000", "1_000")
    text = text.replace("--preset queueing", "--preset queueing --num-envs 8 --minibatch-size 512")
    text = text.replace("num_envs=64", "num_envs=8").replace('"num_envs": 32', '"num_envs": 8')
    text = text.replace("--steps 10000000", "--steps 160000")  # one iteration, so one program
    text = text.replace("--grid gae_lambda=0.95,0.99", "--grid gae_lambda=0.95")
    text = text.replace("seeds=2", "seeds=1")
    text = text.replace("--seeds 5", "--seeds 1").replace("--trials 30", "--trials 1")
    text = text.replace("--env Swimmer-v5 HalfCheetah-v5", "--env Swimmer-v5")
    text = re.sub(r"(--env \w+-v5)", r"\1 --eval-steps 1000", text)
    text = text.replace("longrun report", "longrun report --no-frames")
    text = text.replace("longrun map", "longrun map --size 12")
    text = text.replace("solve criss-cross --regime BM", "solve criss-cross --regime IL --size 20")
    return re.sub(r"steps (\d+)", lambda m: f"steps {min(int(m[1]) // 100, 5000)}", text)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_pages_have_snippets_and_commands():
    assert len(PYTHON) == 10
    commands = {command.split()[1] for page in COMMANDS.values() for command in page}
    assert commands == set(cli.COMMANDS)


@pytest.mark.parametrize(("page", "snippet"), PYTHON)
def test_python_snippets_run(page, snippet, elsewhere, capsys, monkeypatch):
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)
    exec(compile(shortened(snippet), page, "exec"), {})
    for folder in re.findall(r'log_dir="(\S+)"', snippet):
        assert (elsewhere / folder / "summary.json").exists()
    if "print" in snippet:
        assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_commands_run_in_the_order_shown(page, elsewhere, capsys, monkeypatch):
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)
    for command in COMMANDS[page]:
        words = shortened(command).split()[1:]
        if "--ray" in words or words[0] == "reproduce":
            continue  # tested in tests/sweeps/test_sweep_ray.py and tests/paper
        if words[0] in ("train", "sweep") and "--steps" not in words:
            words += ["--steps", "2000"]
        assert cli.main(words) == 0, (command, capsys.readouterr().err)
    written = re.findall(r"--out (\S+\.(?:png|pdf|tex|html))", "\n".join(COMMANDS[page]))
    assert written
    for name in written:
        assert (elsewhere / name).exists(), name


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", PAGES["README.md"], re.MULTILINE))
def test_make_has_the_targets(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "link"),
    [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#]+)\)", PAGES[page])],
)
def test_links_lead_somewhere(page, link):
    assert (ROOT / page).parent.joinpath(link).exists()
