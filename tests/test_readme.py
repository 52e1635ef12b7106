"""README and guide run, shortened: every Python block and every `longrun` command, page by page."""

from __future__ import annotations

import ast
import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

import longrun
from fake_workers import InlineWorkers
from longrun import cli
from longrun.lab.results.labels import preset_config
from longrun.lab.sweeps import run_sweep as start
from longrun.learning.options.other_names import ELSEWHERE, OURS
from longrun.learning.options.presets import PRESETS

ROOT = Path(__file__).parents[1]
PAGES = {
    name: (ROOT / name).read_text()
    for name in ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
}
RESULTS = sorted(f"results/{path.name}" for path in (ROOT / "results").glob("*.md"))
DECISIONS = sorted(f"docs/decisions/{path.name}" for path in (ROOT / "docs/decisions").glob("*.md"))
FENCE = re.compile(
    r"^```(\w*)[^\n]*\n(.*?)^```$(?:\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    """Code on a page, with the output that is shown below it."""

    language: str
    code: str
    shown: str

    @property
    def commands(self) -> list[str]:
        code = re.sub(r" \\\n +", " ", self.code)  # continued lines
        return [] if self.language else re.findall(r"^longrun .*$", code, re.MULTILINE)


BLOCKS = {
    page: [Block(*found) for found in FENCE.findall(text)]
    for page, text in PAGES.items()
    if page != "docs/theory.md"  # which test_theory_doc.py runs
}
QUICK = ("docs/training.md",)
"""Pages that `make test` runs."""
SLOW = ("README.md", "docs/index.md")
"""Those that `make test-slow` runs: where new users start. `make test-guide` runs the others."""
RUN = [
    page
    for page, blocks in BLOCKS.items()
    if any(block.language == "python" or block.commands for block in blocks)
]
SHORTER = {
    "1_000_000": "4_000",
    "600_000": "4_000",
    "300_000": "4_000",
    "100_000": "4_000",
    "10_000": "1_000",
    "rollout_steps=1000": "rollout_steps=200",
    "train apo --env Swimmer-v5": "train apo --workers 0 --env Swimmer-v5",
    "--preset queueing": "--preset queueing --minibatch-size 512",
    "--num-envs 64": "--num-envs 8",
    "num_envs=64": "num_envs=8",
    '"num_envs": 64': '"num_envs": 8',
    "num_envs=32": "num_envs=8",
    '"Pendulum-v1", learning_rate': '"Pendulum-v1", num_workers=0, learning_rate',
    "train apo --env Pendulum-v1": "train apo --workers 0 --env Pendulum-v1",
    "--steps 10000000": "--steps 160000",  # one iteration, so one program
    "--grid gae_lambda=0.95,0.99": "--grid gae_lambda=0.95",
    "seeds=2": "seeds=1",
    "--seeds 5": "--seeds 1",
    "--trials 30": "--trials 1",
    " --grid normalize_observations=false --grid termination=zero": "",
    "--env Swimmer-v5 HalfCheetah-v5": "--env Swimmer-v5",
    "--reference HalfCheetah-v5=7337 ": "",
    "longrun report": "longrun report --no-frames",
    "longrun map": "longrun map --size 12",
    "solve criss-cross --regime BM": "solve criss-cross --regime IL --size 20",
}


def shortened(text: str) -> str:
    """Fewer steps, environments, settings and states; the same code. What a law of many states owes
    to rounding has tests of its own (tests/tabular/test_precision.py).
    """
    for long, short in SHORTER.items():
        text = text.replace(long, short)
    if "--preset queueing" in text and "--num-envs" not in text:
        text = text.replace("--preset queueing", "--preset queueing --num-envs 8")
    text = re.sub(r"(--env \w+-v\d)", r"\1 --eval-steps 1000", text)
    return re.sub(
        r"(?<!rollout-)steps (\d+)", lambda m: f"steps {min(int(m[1]) // 100, 5000)}", text
    )


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for preset in PRESETS.values():
        monkeypatch.setitem(preset, "epochs", 2)
    preset_config.cache_clear()  # of the presets
    monkeypatch.setattr(start, "LocalWorkers", InlineWorkers)
    yield tmp_path
    preset_config.cache_clear()


def marks_of(page: str) -> tuple[pytest.MarkDecorator, ...]:
    if page in QUICK:
        return ()
    return (pytest.mark.slow if page in SLOW else pytest.mark.guide,)


# So little training may leave a policy whose rewards have not settled when it is evaluated.
@pytest.mark.filterwarnings("ignore:the rewards still change after:UserWarning")
@pytest.mark.parametrize("page", [pytest.param(page, marks=marks_of(page)) for page in RUN])
def test_code_and_commands_of_a_page_run_in_order(page, elsewhere, capsys):
    names: dict[str, object] = {}
    for block in BLOCKS[page]:
        if block.language == "python":
            run_python(page, block, names)
        for command in block.commands:
            run_command(command, capsys)
    text = PAGES[page]
    for folder in re.findall(r'learn\([^#]*?log_dir="(\S+)"', text):
        assert (elsewhere / folder / "summary.json").exists()
    commands = "\n".join(command for block in BLOCKS[page] for command in block.commands)
    for name in re.findall(r"--(?:out|map) (\S+\.(?:png|pdf|tex|html|md|onnx))", commands):
        assert (elsewhere / name).exists(), name


def test_no_two_pages_train_into_one_folder() -> None:
    """A reader works in one folder, page after page, and a folder of another run is refused."""
    trained: dict[str, str] = {}
    for page, blocks in BLOCKS.items():
        python = "".join(block.code for block in blocks if block.language == "python")
        commands = "\n".join(c for block in blocks for c in block.commands if "--resume" not in c)
        folders = re.findall(r'log_dir="(\S+?)"', python)
        folders += re.findall(r"^longrun (?:train|sweep) .*--out (\S+)", commands, re.MULTILINE)
        for folder in folders:
            assert trained.setdefault(folder, page) == page, folder


def run_python(page: str, block: Block, names: dict[str, object]) -> None:
    """Execute a block after those above it; what it prints is what is shown, unless shortened."""
    printed = io.StringIO()
    line = PAGES[page][: PAGES[page].index(block.code)].count("\n")
    code = shortened(block.code)
    with redirect_stdout(printed):
        exec(compile("\n" * line + code, page, "exec"), names)
    assert bool(printed.getvalue()) == ("print(" in block.code), f"{page}, line {line}"
    if block.shown:
        assert code == block.code, "the output of shortened code cannot be shown"
        assert printed.getvalue() == block.shown, f"{page}, line {line}"


def run_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shortened(command).split()[1:]
    if "--ray" in words or words[0] == "reproduce":
        return  # tested in tests/sweeps/test_sweep_ray.py and tests/paper
    if words[0] in ("train", "sweep") and "--steps" not in words and "--resume" not in words:
        words += ["--steps", "2000"]
    assert cli.main(words) == 0, (command, capsys.readouterr().err)


def test_no_page_has_marks_of_a_merge() -> None:
    for name in (*PAGES, "CHANGELOG.md", *RESULTS, *DECISIONS):
        assert not re.search(r"^(<<<<<<<|>>>>>>>) ", (ROOT / name).read_text(), re.MULTILINE), name


def test_the_pages_show_every_command():
    commands = {
        c.split()[1] for blocks in BLOCKS.values() for block in blocks for c in block.commands
    }
    assert commands == set(cli.COMMANDS)
    assert {*QUICK, "README.md", "docs/index.md", "docs/own-environment.md"} <= set(RUN)


def test_code_of_other_libraries_is_python():
    """Blocks that are marked py are not run, since their packages are not installed."""
    others = [
        block.code for blocks in BLOCKS.values() for block in blocks if block.language == "py"
    ]
    assert others
    for code in others:
        ast.parse(code)


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", PAGES["README.md"], re.MULTILINE))
def test_make_has_the_targets(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")
MADE = ("docs/commands.md", "docs/changelog.md")
"""Pages that the build makes; its pictures are in docs/made."""


@pytest.mark.parametrize("page", [*PAGES, *RESULTS, *DECISIONS])
def test_links_lead_somewhere(page):
    text = re.sub(FENCE, "", (ROOT / page).read_text())
    for link, anchor in LINK.findall(text):
        if link.startswith("https:"):
            continue
        path = (ROOT / page).parent.joinpath(link).resolve() if link else ROOT / page
        place = path.relative_to(ROOT).as_posix()
        assert path.exists() or place in MADE or place.startswith("docs/made/"), link
        if anchor and path.exists() and "longrun." not in anchor:
            assert anchor in anchors(path), f"{link}#{anchor}"


def anchors(path: Path) -> set[str]:
    """Of the headings of a page."""
    found = re.findall(r"^#+ (.*)$", re.sub(FENCE, "", path.read_text()), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", h.lower()).strip()) for h in found}


def test_the_navigation_has_every_page():
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = {name.removeprefix("docs/") for name in (*PAGES, *MADE) if name.startswith("docs/")}
    assert sorted(listed) == sorted(pages | set(RESULTS) | {"decisions/index.md"})


def test_names_of_other_libraries_are_explained():
    page = PAGES["docs/from-stable-baselines3.md"]
    rows = dict(re.findall(r"^\| (.*?) \| (.*) \|$", page, re.MULTILINE))
    ours = {name: text for names, text in rows.items() for name in re.findall(r"`(\w+)`", names)}
    assert not [n for n, name in OURS.items() if f"`{name}`" not in ours.get(n, "")]
    assert set(ELSEWHERE) <= set(ours)


def test_the_reference_has_every_public_name():
    text = "".join(PAGES[f"docs/{name}.md"] for name in ("api", "api-tabular", "api-queueing"))
    documented = set(re.findall(r"^::: longrun\.([\w.]+)$", text, re.MULTILINE))
    named = set(re.findall(r"`(\w+)`", text))
    assert not [name for name in dir(longrun) if name not in documented | named | {"__version__"}]
