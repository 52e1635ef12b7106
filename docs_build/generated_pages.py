"""Pages that are made from the code or from files outside docs/."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress

from longrun.cli import COMMANDS, main
from longrun.learning.envs.builtin_envs import BUILTIN
from longrun.learning.options.config import ALGORITHMS

GENERATED = {"commands.md": None, "changelog.md": "CHANGELOG.md"}
"""Pages of the site, and the file that each is; None is `commands_page`."""
WIDTH = "98"
"""of the help texts, which fits the pages"""

BEGIN = """\
# Command line

What each command prints with `--help`. This page is made from the parsers. The pages of the guide
show the commands at work: [sweeps](sweeps.md), [queueing](queueing.md),
[exact solutions](exact-solutions.md).

Wrong input ends with status 2 and one line that names the option, the value and the fix. A failure
has status 1, an interrupted run 130. `--debug` after any command shows tracebacks.
"""


def commands_page() -> str:
    """Every command's help, that of `train` for each algorithm, and the built-in environments."""
    parts = [BEGIN]
    for command, words in COMMANDS.items():
        parts.append(f"## longrun {command}\n\n{words.capitalize()}.\n\n{_shown([command])}")
        if command == "train":
            parts += [_section([command, algorithm]) for algorithm in ALGORITHMS]
        if command == "solve":
            parts.append(_section([command, "criss-cross"]))
    parts.append(
        "## Built-in environments\n\nWhat `longrun train apo --env jax:NAME --help` prints.\n"
    )
    for name in BUILTIN:
        shown = _shown(["train", "apo", "--env", f"jax:{name}"])
        parts.append(f"### jax:{name}\n\n{shown}")
    return "\n".join(parts)


def _section(words: list[str]) -> str:
    return f"### longrun {' '.join(words)}\n\n{_shown(words)}"


def _shown(words: list[str]) -> str:
    return f"```text\n{help_text(words)}\n```\n"


def help_text(words: list[str]) -> str:
    """What `longrun WORDS --help` prints, `WIDTH` columns wide."""
    printed = io.StringIO()
    with _columns(), redirect_stdout(printed), suppress(SystemExit):
        main([*words, "--help"])
    return printed.getvalue().strip()


@contextmanager
def _columns() -> Iterator[None]:
    """The width that argparse and `shutil.get_terminal_size` find."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
