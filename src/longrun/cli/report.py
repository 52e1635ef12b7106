"""`longrun report`: one self-contained HTML page of a run or a sweep."""

from __future__ import annotations

from pathlib import Path

from longrun.base.errors import InputError
from longrun.cli.options import Parser, add_trust_option, parse

DESCRIPTION = """\
Write one HTML page about a run folder, a sweep folder or a folder of these: interactive learning
curves, a table of the settings, failed runs, the configuration, and an animation of the best policy
on each environment that can be rendered (those in JAX cannot). The page is one file that needs no
network connection.
"""

EXAMPLES = """\
examples:
  longrun report runs/swimmer
  longrun report runs/sweep --out sweep.html --no-frames
"""


def report_command(arguments: list[str]) -> int:
    parser = Parser(prog="longrun report", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument(
        "folder", type=Path, nargs="+", help="run folder, sweep folder or a folder of these"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the page (default: FOLDER/report.html)"
    )
    parser.add_argument(
        "--no-frames",
        action="store_true",
        help="leave out the animations, which take some seconds for each environment",
    )
    add_trust_option(parser)
    given = parse(parser, arguments)
    folder, *others = given["folder"]
    if others:
        raise InputError(
            f"a report is about one folder, not '{folder}' and '{others[0]}': give the folder that"
            " holds them; longrun compare and longrun plot take several"
        )
    out = given.get("out", folder / "report.html")
    if out.suffix not in (".html", ".htm"):
        raise InputError(f"--out {out} must end in .html")
    from rich.console import Console

    from longrun.lab.report.page import write_report

    with Console(stderr=True).status(f"writing {out}"):
        frames, trust = not given.get("no_frames", False), given.get("trust", False)
        write_report(folder, out, frames, trust)
    print(f"wrote {out} ({out.stat().st_size / 1e6:.1f} MB)")
    return 0
