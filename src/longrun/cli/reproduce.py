"""`longrun reproduce`: the paper's experiments, run and drawn."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from longrun.base.checks import MOST_STEPS, known, whole_number
from longrun.cli.options import Parser, parse, whole
from longrun.cli.sweep import add_running_options, running_options

EXPERIMENTS = {
    "figure1": "APO and PPO with four discount factors on Swimmer, HalfCheetah, Ant",
    "figure2": "APO with five strengths of the Average Value Constraint: return, average value",
    "appendix": "Appendix C: as figure1 on all six tasks, with return and average reward",
    "grid": "Appendix B: every combination of its hyper-parameters",
}


DESCRIPTION = """\
Run one of the paper's experiments as a sweep, then draw its figure and print its table. The same
command resumes an experiment that was stopped.
"""

EPILOG = """\
experiments:
{experiments}

scales:
{scales}

ways (--as):
{ways}

example: longrun reproduce figure1 --scale smoke"""


def reproduce_command(arguments: list[str]) -> int:
    given = parse(_parser(), arguments)
    from longrun.lab.paper.experiments import SCALES, WAYS, runs_of, tasks_of

    name = known("experiment", given["experiment"], EXPERIMENTS)
    scale = SCALES[known("scale", given.get("scale", "laptop"), SCALES)]
    way = known("--as", given.get("as", "paper"), WAYS)
    steps = whole_number("steps", given.get("steps", scale.steps), 1, MOST_STEPS)
    seeds = whole_number("seeds", given.get("seeds", scale.seeds), 1)
    scale = dataclasses.replace(scale, steps=steps, seeds=seeds)
    runs = runs_of(name, scale, tasks_of(name, given.get("env")), way)
    from longrun.lab.paper.figures import draw
    from longrun.lab.sweeps.run_sweep import run_sweep
    from longrun.lab.sweeps.sweep_folder import SweepFolder

    usual = Path("runs") / (name if way == "paper" else f"{name}-{way}")
    folder = SweepFolder.create(given.get("out", usual), runs)
    status = run_sweep(folder, **running_options(given))
    for picture in draw(name, folder.path):
        print(f"wrote {picture}")
    return status


def _parser() -> Parser:
    from longrun.lab.paper.experiments import SCALES_IN_WORDS, WAYS

    parser = Parser(
        prog="longrun reproduce",
        description=DESCRIPTION,
        epilog=EPILOG.format(
            experiments=_listed(EXPERIMENTS), scales=_listed(SCALES_IN_WORDS), ways=_listed(WAYS)
        ),
    )
    parser.add_argument("experiment", help="one of those listed below")
    parser.add_argument(
        "--scale", metavar="NAME", help="one of those listed below (default: laptop)"
    )
    parser.add_argument("--as", metavar="WAY", help="one of those listed below (default: paper)")
    parser.add_argument(
        "--env", nargs="+", metavar="ID", help="some of the experiment's tasks (default: all)"
    )
    parser.add_argument(
        "--steps", type=whole, metavar="N", help="steps of each run (default: the scale's)"
    )
    parser.add_argument(
        "--seeds", type=int, metavar="K", help="seeds 0 to K-1 (default: the scale's)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="SWEEP",
        help="the sweep's folder (default: runs/EXPERIMENT, or runs/EXPERIMENT-WAY)",
    )
    add_running_options(parser)
    return parser


def _listed(texts: Mapping[str, str]) -> str:
    return "\n".join(f"  {name:10}{text}" for name, text in texts.items())
