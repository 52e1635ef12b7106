"""`longrun reproduce`: the paper's experiments, run and drawn."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from longrun.cli.options import Parser, parse, whole
from longrun.cli.sweep import add_running_options
from longrun.config import known, whole_number

EXPERIMENTS = {
    "figure1": "APO against PPO with four discount factors: Swimmer, HalfCheetah, Ant",
    "figure2": "five strengths of the Average Value Constraint: return and average value",
    "appendix": "Appendix C: the comparison on all six tasks, both metrics",
    "grid": "Appendix B: every combination of its hyper-parameters",
}


def reproduce_command(arguments: list[str]) -> int:
    from longrun.paper.experiments import SCALES, SCALES_IN_WORDS

    listed = "; ".join(f"{name}: {words}" for name, words in EXPERIMENTS.items())
    parser = Parser(
        prog="longrun reproduce",
        description="Run one of the paper's experiments as a sweep, then draw its figure and print"
        " its table. The same command again goes on where it was stopped.",
    )
    parser.add_argument("experiment", help=listed)
    scales = "; ".join(f"{name}: {words}" for name, words in SCALES_IN_WORDS.items())
    parser.add_argument("--scale", metavar="NAME", help=f"{scales} (default: laptop)")
    parser.add_argument("--env", nargs="+", metavar="ID", help="some of the tasks only")
    parser.add_argument("--steps", type=whole, help="of each run (default: the scale's)")
    parser.add_argument("--seeds", type=int, metavar="K", help="from 0 on (default: the scale's)")
    parser.add_argument("--out", type=Path, help="the sweep's folder (default: runs/EXPERIMENT)")
    add_running_options(parser)
    given = parse(parser, arguments)
    name = known("experiment", given["experiment"], EXPERIMENTS)
    scale = SCALES[known("scale", given.get("scale", "laptop"), SCALES)]
    steps = whole_number("steps", given.get("steps", scale.steps), 1)
    seeds = whole_number("seeds", given.get("seeds", scale.seeds), 1)
    scale = dataclasses.replace(scale, steps=steps, seeds=seeds)
    from longrun.paper import experiments as reproduction
    from longrun.sweeps.plan import runs_of
    from longrun.sweeps.run_sweep import run_sweep
    from longrun.sweeps.sweep_folder import SweepFolder

    chosen = reproduction.tasks_of(name, given.get("env"))
    blocks = reproduction.BLOCKS[name](scale, chosen)
    folder = SweepFolder.create(given.get("out", Path("runs") / name), runs_of(blocks))
    running = {n: given[n] for n in ("workers", "ray", "retries", "quiet") if n in given}
    status = run_sweep(folder, **running)
    from longrun.paper.figures import draw

    for picture in draw(name, folder.path):
        print(f"wrote {picture}")
    return status
