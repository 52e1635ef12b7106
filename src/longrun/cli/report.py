"""`longrun report`: one self-contained HTML page of a run or a sweep."""

from __future__ import annotations

import argparse
from pathlib import Path

from longrun.cli.options import Parser, parse
from longrun.errors import InputError

DESCRIPTION = """\
Write one HTML page of a run folder, a sweep folder or a folder of these: learning curves to look
around in, a table of the settings, what failed, the configuration, and the best policy of each
environment at work. The file holds all it shows: it can be mailed, kept and read offline.
"""

EXAMPLES = """\
examples:
  longrun report runs/swimmer
  longrun report runs/sweep --out sweep.html --no-frames
"""


def report_command(arguments: list[str]) -> int:
    parser = Parser(prog="longrun report", description=DESCRIPTION, epilog=EXAMPLES)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="run folder, sweep folder or a folder of these")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the page (default: FOLDER/report.html)"
    )
    parser.add_argument(
        "--no-frames",
        action="store_true",
        help="no pictures of the policies, which take some seconds for each environment",
    )
    given = parse(parser, arguments)
    out = given.get("out", given["folder"] / "report.html")
    if out.suffix not in (".html", ".htm"):
        raise InputError(f"--out {out} must end in .html")
    from rich.console import Console

    from longrun.results.report.page import write_report

    with Console(stderr=True).status(f"writing {out}"):
        write_report(given["folder"], out, frames=not given.get("no_frames", False))
    print(f"wrote {out} ({out.stat().st_size / 1e6:.1f} MB)")
    return 0
