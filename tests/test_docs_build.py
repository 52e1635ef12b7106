"""What the guide's build makes from the code and from links; MkDocs itself is not needed here."""

from __future__ import annotations

import dataclasses
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
