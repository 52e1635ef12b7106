"""`longrun plot`: learning curves of runs and sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longrun.base.checks import known, whole_number
from longrun.cli.options import Parser, add_results_argument, parse, whole

if TYPE_CHECKING:
    from longrun.lab.results.settings import Setting

DESCRIPTION = """\
Draw learning curves: a row for each metric, a column for each environment, a colour for each
setting. The thick line is the mean over seeds, the band its nominal 95 % interval; thin lines are
seeds. Seeds of a setting are collected from all folders. The table of final scores is printed.
"""

EXAMPLES = """\
examples:
  longrun plot runs/apo runs/ppo --out curves.png
  longrun plot sweeps/swimmer --metric episode_return --iqm --smooth 3 --out curves.pdf
  longrun plot sweeps/swimmer --metric average_reward --metric value_mean --out values.svg
"""


def plot_command(arguments: list[str]) -> int:
    given = parse(_parser(), arguments)
    from longrun.base.picture_files import require_picture
    from longrun.lab.results.comparison_table import print_final
    from longrun.lab.results.plots import DEFAULT_METRICS, learning_curves, limited_costs

    outs = given.get("out", [Path("curves.png")])
    for out in outs:
        require_picture(out)
    smooth = whole_number("smooth", given.get("smooth", 1), 1)
    metrics = list(dict.fromkeys(given.get("metric", DEFAULT_METRICS)))
    evaluations, training = _read(given["runs"], metrics)
    if "metric" not in given:
        metrics += limited_costs(evaluations)
    if evaluations:
        print_final(evaluations)
    _note_without_gain(metrics, training)
    learning_curves([*evaluations, *training], outs, metrics, given.get("iqm", False), smooth)
    for out in outs:
        print(f"wrote {out}")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="longrun plot", description=DESCRIPTION, epilog=EXAMPLES)
    add_results_argument(parser)
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME",
        help="average_reward, episode_return, episode_average_reward, episode_length, cost_NAME of"
        " a recorded cost, or a column of metrics.csv such as value_mean or gain; may be repeated"
        " (default: the first two, and costs with a limit)",
    )
    parser.add_argument(
        "--iqm",
        action="store_true",
        help="interquartile mean and its interval, instead of the mean with Student's",
    )
    parser.add_argument(
        "--smooth", type=whole, metavar="N", help="average the last N points of each seed's curve"
    )
    parser.add_argument(
        "--out",
        type=Path,
        action="append",
        metavar="FILE",
        help="picture: png, pdf or svg; may be repeated (default: curves.png)",
    )
    return parser


def _note_without_gain(metrics: Sequence[str], training: Sequence[Setting]) -> None:
    from longrun.base.errors import listed
    from longrun.lab.results.read import GAIN
    from longrun.learning.options.config import Discounted

    without = dict.fromkeys(s.label for s in training if isinstance(s.config, Discounted))
    if GAIN in metrics and without:
        print(f"note: {GAIN} leaves out {listed(without)}: discounted algorithms learn no gain")


def _read(paths: Sequence[Path], metrics: Sequence[str]) -> tuple[list[Setting], list[Setting]]:
    """Settings with evaluations, and settings with training metrics, as far as needed."""
    from longrun.lab.results import read
    from longrun.lab.results.metric_names import SCORES
    from longrun.lab.results.settings import scan

    found = scan(paths)
    evaluated = dict.fromkeys([*SCORES, *read.measured(found, read.EVALUATIONS)])
    training = [metric for metric in metrics if metric not in evaluated]
    for metric in training:
        known("metric", metric, [*evaluated, *read.measured(found, read.METRICS)])
    return (
        read.evaluations_of(found) if len(training) < len(metrics) else [],
        read.training_of(found, training) if training else [],
    )
