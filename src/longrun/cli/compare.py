"""`longrun compare`: statistics of the settings in runs and sweeps."""

from __future__ import annotations

from pathlib import Path

from longrun.base.checks import known
from longrun.cli.options import Parser, add_results_argument, parse, whole

DESCRIPTION = """\
Compare settings: a verdict in one line, and a table of the final scores on each environment and, if
there are several, over all of them. The final score of a seed is the mean of its evaluations in the
last tenth of training.

The interquartile mean over seeds leaves out the worst and the best quarter. In brackets are
nominal 95 % intervals: of five seeds they cover 88 to 96 % in simulations, and those of P(better)
92 to 100 %. Fewer than five seeds are shown themselves, in parentheses. P(better) is the
probability that a seed has a higher score than a seed of the baseline; 0.5 means no difference.
Over several environments the scores on each are scaled so that the worst seed has 0 and the best 1.
"""

EXAMPLES = """\
examples:
  longrun compare runs/apo runs/ppo
  longrun compare sweeps/swimmer --baseline "PPO discount=0.99" --out table.tex --out table.csv
  longrun compare sweeps/mujoco --metric episode_return --at 500000 --profile profile.png
"""


def compare_command(arguments: list[str]) -> int:
    given = parse(_parser(), arguments)
    from longrun.lab.results.comparison import compare
    from longrun.lab.results.comparison_table import print_comparison
    from longrun.lab.results.metric_names import SCORES
    from longrun.lab.results.tables import require_table, write_table

    outs: list[Path] = given.get("out", [])
    for out in outs:
        require_table(out)
    if profile := given.get("profile"):
        from longrun.base.picture_files import require_picture

        require_picture(profile)
    chosen = known("metric", given.get("metric", SCORES[0]), [*SCORES, "all"])
    metrics = SCORES if chosen == "all" else (chosen,)
    how = {name: given.get(name) for name in ("baseline", "at")}
    found = compare(given["runs"], metrics, **how, best=given.get("best", False))
    table = print_comparison(found)
    for out in outs:
        write_table(out, table, found.records())
    if profile:
        from longrun.lab.results.plots import draw_profiles

        draw_profiles(found, metrics[0], profile)
        outs = [*outs, profile]
    for out in outs:
        print(f"wrote {out}")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="longrun compare", description=DESCRIPTION, epilog=EXAMPLES)
    add_results_argument(parser)
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="average_reward (the default), episode_return, episode_average_reward or all",
    )
    parser.add_argument(
        "--baseline",
        metavar="LABEL",
        help="the setting that others are compared with (default: the first)",
    )
    parser.add_argument(
        "--at",
        type=whole,
        metavar="STEPS",
        help="compare the scores after this many steps: later evaluations are left out",
    )
    parser.add_argument(
        "--best",
        action="store_true",
        help="score a seed by its best evaluation, as some libraries do; this is biased upwards",
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
