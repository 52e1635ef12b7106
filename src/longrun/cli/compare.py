"""`longrun compare`: settings of runs and sweeps with intervals over their seeds."""

from __future__ import annotations

import argparse
from pathlib import Path

from longrun.cli.options import Parser, parse, whole
from longrun.config import known

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
    from longrun.results.comparison import compare
    from longrun.results.comparison_table import raw_rows, text_tables
    from longrun.results.metric_names import SCORES
    from longrun.results.tables import print_tables, require_table, write_table

    outs: list[Path] = given.get("out", [])
    for out in outs:
        require_table(out)
    if "profile" in given:
        from longrun.results.plot_style import require_picture

        require_picture(given["profile"])
    chosen = known("metric", given.get("metric", "all"), [*SCORES, "all"])
    metrics = list(SCORES) if chosen == "all" else [chosen]
    how = {name: given.get(name) for name in ("baseline", "at")}
    found = compare(given["runs"], metrics, **how, best=given.get("best", False))
    tables = text_tables(found)
    print_tables(tables)
    for out in outs:
        write_table(out, tables, raw_rows(found))
    if "profile" in given:
        from longrun.results.plots import draw_profiles

        draw_profiles(found, metrics[0], given["profile"])
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
        help="score a seed by its best evaluation, as some libraries do; not below its final score",
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
