"""What the guide's build makes from the code and from links; MkDocs itself is not needed here."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from longrun.cli import COMMANDS
from longrun.learning.options.config import ALGORITHMS

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def docs_build_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs_build"))


def test_the_page_of_commands_has_every_help():
    from generated_pages import commands_page, help_text

    page = commands_page()
    for command in COMMANDS:
        assert f"## longrun {command}\n" in page
    assert "--gae-lambda X" in help_text(["train", "apo"])
    assert "--discount X" not in help_text(["train", "apo"])
    assert help_text(["train", "ppo"]) in page
    assert "### jax:maintenance\n" in page


def test_help_texts_fit_a_page():
    from generated_pages import help_text

    for words in (["sweep"], ["train", "atrpo"], ["solve", "criss-cross"]):
        assert max(len(line) for line in help_text(words).splitlines()) <= 100


def test_the_table_of_options_has_every_option_once():
    from options_table import options_table

    names = [row.split("`")[1] for row in options_table().splitlines()[2:]]
    assert len(names) == len(set(names))
    assert set(names) == {
        option.name for kind in ALGORITHMS.values() for option in dataclasses.fields(kind)
    }
    assert "| `scale_rewards` | True | all |" in options_table()  # the preset's, not the field's
    differing = "| `adaptive_lambda` | True for APO, ATRPO; False for PPO, TRPO | all |"
    assert differing in options_table()


KNOWN = {"index.md", "theory.md", "results/RESULTS.md", "results/tuned/tuned.csv", "changelog.md"}


@pytest.mark.parametrize(
    ("page", "written", "expected"),
    [
        ("index.md", "[a](theory.md#x)", "[a](theory.md#x)"),
        ("index.md", "[a](../results/RESULTS.md#x)", "[a](results/RESULTS.md#x)"),
        ("index.md", "[a](../CHANGELOG.md)", "[a](changelog.md)"),
        ("index.md", "[a](../benchmarks/results)", "a"),
        ("index.md", "[a](#here) [b](https://c.de/f)", "[a](#here) [b](https://c.de/f)"),
        ("results/RESULTS.md", "[a](../docs/theory.md)", "[a](../theory.md)"),
        ("results/RESULTS.md", "[a](tuned/tuned.csv)", "[a](tuned/tuned.csv)"),
        ("changelog.md", "[a](docs/theory.md)", "[a](theory.md)"),
        (
            "index.md",
            "```python\nf[a](../benchmarks/x)\n```",
            "```python\nf[a](../benchmarks/x)\n```",
        ),
        ("index.md", "[a](missing.md)", "[a](missing.md)"),  # which the strict build refuses
    ],
)
def test_links_lead_through_the_site(page, written, expected):
    from links import in_site

    assert in_site(written, page, KNOWN) == expected


def test_pictures_of_the_pages_are_made():
    source = (ROOT / "docs_build" / "pictures.py").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        for name in page.read_text().split("](made/")[1:]:
            assert f'"{name.split(")")[0]}"' in source


DESIGN = ROOT / "docs" / "design.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def words_of(text: str) -> int:
    """Words of a page without its tables; a piece of code counts as one."""
    text = re.sub(r"```.*?```|<!--.*?-->|^\|.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    return len(re.sub(r"`[^`]*`", "code", text).split())


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem[:3])
def test_decisions_are_short_and_have_three_parts(path):
    text = path.read_text()
    assert re.findall("^## (.*)$", text, re.MULTILINE) == ["Context", "Choice", "Evidence"]
    assert 100 <= words_of(text) <= 300


def test_the_list_of_decisions_has_each_once_by_its_title():
    listed = re.findall(
        r"^- \[(.*)\]\((.*)\)$", (DECISIONS[0].parent / "index.md").read_text(), re.M
    )
    titles = {path.name: path.read_text().splitlines()[0].removeprefix("# ") for path in DECISIONS}
    assert sorted((name, title) for title, name in listed) == sorted(titles.items())
    assert [int(path.name[:3]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_the_design_is_short_and_its_picture_is_narrow():
    text = DESIGN.read_text()
    assert len(text.split()) <= 1500
    blocks = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert max(len(line) for block in blocks for line in block.splitlines()) <= 52


def test_the_design_names_what_there_is():
    """Folders of its map, and files and functions of its text."""
    source = ROOT / "src" / "longrun"
    folders = {path.parent.relative_to(source).as_posix() for path in source.rglob("*.py")}
    map_, text = DESIGN.read_text().split("```text\n")[1].split("```", 1)
    parts = {part.strip("/") for part in re.findall(r"\S+/(?=\s)", map_)}
    assert parts - {"src/longrun"} == {f.rpartition("/")[2] for f in folders} - HIDDEN
    for name in re.findall(r"`([\w/]+/\w+\.py)`", text):
        assert (source / name).exists() or (ROOT / name).exists(), name


HIDDEN = {".", "adapters"}
"""Folders that the map does not show."""
