"""`longrun compare`: settings of runs and sweeps side by side, with honest intervals."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longrun.cli.options import Parser, parse, whole
from longrun.config import known

if TYPE_CHECKING:
    from longrun.results.read import Setting

DESCRIPTION = """\
Compare settings: a table for each environment and, where there are several, one over all of them.
The score of a seed is the mean of its evaluations over the last 10 % of training.

The interquartile mean over seeds leaves out the worst and the best quarter. In brackets are 95 %
bootstrap intervals; those of fewer than about five seeds are too narrow. P(better) is the
probability that a seed beats one of the baseline's; 0.5 means that they are alike. Over several
environments each is scaled so that 0 is the worst and 1 the best seed compared.
"""

EXAMPLES = """\
examples:
  longrun compare runs/apo runs/ppo
  longrun compare sweeps/swimmer --baseline "PPO discount=0.99" --out table.tex --out table.csv
  longrun compare sweeps/mujoco --metric episode_return --at 500000 --profile profile.png
"""


def compare_command(arguments: list[str]) -> int:
    given = parse(_parser(), arguments)
    from longrun.results.comparison import METRICS, compare, raw_rows, text_tables
    from longrun.results.read import read_results
    from longrun.results.tables import print_tables, require_table, write_table

    outs: list[Path] = given.get("out", [])
    for out in outs:
        require_table(out)
    if "profile" in given:
        from longrun.results.plot_style import require_picture

        require_picture(given["profile"])
    chosen = known("metric", given.get("metric", "all"), [*METRICS, "all"])
    metrics = list(METRICS) if chosen == "all" else [chosen]
    settings = [s for s in read_results(given["runs"]) if len(s.steps)]
    _tell_of_lengths(settings, given.get("at"))
    how = {"at": given.get("at"), "best": given.get("best", False)}
    found = compare(settings, metrics, given.get("baseline"), **how)
    tables = text_tables(found)
    print_tables(tables)
    for out in outs:
        write_table(out, tables, raw_rows(found))
    if "profile" in given:
        _draw_profile(settings, metrics[0], given["profile"], how)
    for out in [*outs, *([given["profile"]] if "profile" in given else [])]:
        print(f"wrote {out}")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="longrun compare", description=DESCRIPTION, epilog=EXAMPLES)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "runs", type=Path, nargs="+", help="run folders, sweep folders, or folders of these"
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="average_reward, episode_return, episode_average_reward or all (default: all)",
    )
    parser.add_argument(
        "--baseline", metavar="LABEL", help="the setting to beat (default: the first)"
    )
    parser.add_argument(
        "--at",
        type=whole,
        metavar="STEPS",
        help="compare the last evaluations that are not later than this",
    )
    parser.add_argument(
        "--best",
        action="store_true",
        help="score a seed by its best evaluation, as some libraries do: kinder than the truth",
    )
    parser.add_argument(
        "--out",
        type=Path,
        action="append",
        metavar="FILE",
        help="write the tables: .csv (all numbers), .md or .tex (booktabs); may be repeated",
    )
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="draw performance profiles: the share of runs above each score; png, pdf or svg",
    )
    return parser


def _tell_of_lengths(settings: Sequence[Setting], at: int | None) -> None:
    """Settings that were trained for different times are compared, but not quietly."""
    for env in dict.fromkeys(s.env for s in settings):
        ends = {int(s.steps[-1]) for s in settings if s.env == env}
        if at is None and min(ends) < 0.9 * max(ends):
            warnings.warn(
                f"settings on {env} end between {min(ends):,} and {max(ends):,} steps; --at"
                f" {min(ends)} compares them at the same time",
                UserWarning,
                stacklevel=2,
            )


def _draw_profile(settings: Sequence[Setting], metric: str, out: Path, how: dict[str, Any]) -> None:
    from longrun.results.comparison import METRICS, scores_by_label
    from longrun.results.plots import draw_profiles

    scores = scores_by_label(settings, metric, **how)
    tasks = list(dict.fromkeys(s.env for s in settings))
    scaled = " (scaled)" if len(tasks) > 1 else ""
    place = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
    draw_profiles(scores, out, title=place, xlabel=f"{METRICS[metric]}{scaled}")
