"""`longrun sweep`: many settings, seeds, environments and algorithms, in one folder."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longrun.base.checks import known, whole_number
from longrun.base.errors import InputError
from longrun.cli.options import (
    Arguments,
    Parser,
    add_algorithm_options,
    add_evaluation_options,
    add_length_options,
    add_preset_option,
    add_trust_option,
    algorithm_options,
    parse,
)
from longrun.learning.options.config import ALGORITHMS
from longrun.learning.runs.spec import DEFAULT_STEPS

if TYPE_CHECKING:
    from longrun.lab.sweeps.sweep_folder import SweepFolder

DESCRIPTION = """\
Train every setting of a grid, an ablation or a search with every seed. A sweep is a folder of runs;
it can be stopped at any moment. The same command resumes it and leaves finished runs as they are;
with more seeds, values, environments or steps than before it extends the sweep (steps only with
--no-learning-rate-decay: a rate that falls to 0 over a run depends on its length).
"""

EXAMPLES = """\
examples:
  longrun sweep apo --env Swimmer-v5 --steps 600000 --seeds 5 --out runs/sweep \\
      --grid value_constraint=0,0.1,0.3 --grid gae_lambda=0.95,0.99
  longrun sweep apo ppo --env Swimmer-v5 HalfCheetah-v5 --seeds 5 --grid discount=0.99,0.999
  longrun sweep apo --env Hopper-v5 --grid hidden_sizes=64x64,128x128 \\
      --grid scale_rewards=true,false
  longrun sweep apo --env Hopper-v5 --seeds 5 --search ablation --grid value_constraint=0 \\
      --grid normalize_observations=false --grid learning_rate_decay=false
  longrun sweep apo --env Ant-v5 --search optuna --trials 30 --seed 100 --seeds 2 \\
      --range learning_rate=1e-4:1e-3:log --range gae_lambda=0.8:0.99
  longrun sweep apo --env Ant-v5 Hopper-v5 --search optuna --range gae_lambda=0.8:0.99 \\
      --reference Ant-v5=4079 --reference Hopper-v5=3128 --metric episode_return
  longrun sweep --resume --out runs/sweep"""


PLAIN = ("preset", "search", "trials", "metric", "eval_every", "eval_steps")
"""Options that are arguments of `longrun.sweep` as they are."""
RUNNING = ("workers", "ray", "retries", "quiet", "step_timeout")
"""Options of running a sweep, which may change when it is resumed."""


def sweep_command(arguments: list[str]) -> int:
    algorithms = [
        known("algorithm", name.lower(), ALGORITHMS)
        for name in itertools.takewhile(lambda a: not a.startswith("-"), arguments)
    ]
    given = parse(sweep_parser(algorithms), arguments[len(algorithms) :])
    from longrun.lab.sweeps.run_sweep import run_sweep
    from longrun.lab.sweeps.sweep_folder import SweepFolder

    if not given.get("resume"):
        return run_sweep(_create(algorithms, given), **running_options(given))
    others = [name for name in given if name not in (*RUNNING, "resume", "out", "trust")]
    if algorithms or others:
        what = f"--{others[0].replace('_', '-')}" if others else algorithms[0]
        raise InputError(f"--resume takes the sweep as it is in --out; leave out {what}")
    if "out" not in given:
        raise InputError("--resume needs --out, the sweep's folder")
    folder = SweepFolder.open(given["out"])
    folder.require_trusted(given.get("trust", False))
    return run_sweep(folder, **running_options(given))


def sweep_parser(algorithms: Sequence[str]) -> Parser:
    """The parser of `longrun sweep`, with the options of `algorithms`, or of all if it is empty."""
    parser = Parser(
        algorithms=algorithms,
        prog="longrun sweep",
        usage="longrun sweep ALGORITHM [ALGORITHM ...] --env ID [ID ...] [options]\n"
        "       longrun sweep --resume --out SWEEP",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    group = parser.add_argument_group("what to train")
    group.add_argument("--env", nargs="+", metavar="ID", help="one or more environments")
    group.add_argument(
        "--env-args",
        nargs="+",
        metavar="NAME=VALUE",
        help="arguments of the environment, if it is one; arguments of several are part of their"
        " names, as in jax:criss-cross?regime=BM",
    )
    add_length_options(group)
    _add_search_options(group)
    add_preset_option(group)
    add_evaluation_options(group)
    add_running_options(parser)
    folder = parser.add_argument_group("folder")
    folder.add_argument(
        "--out", type=Path, metavar="SWEEP", help="the sweep's folder (default: runs/sweep)"
    )
    folder.add_argument(
        "--resume",
        action="store_true",
        help="resume the sweep in --out; give nothing else but options of running it",
    )
    add_trust_option(folder)
    add_algorithm_options(parser, *(ALGORITHMS[name] for name in algorithms or ALGORITHMS))
    return parser


def _add_search_options(group: Arguments) -> None:
    group.add_argument(
        "--grid",
        action="append",
        metavar="NAME=A,B,...",
        help="values of an algorithm's option, any of those listed at the end; with several --grid,"
        " every combination. Algorithms without the option ignore it; ppo.gae_lambda=0.9 is for PPO"
        " alone",
    )
    group.add_argument(
        "--range",
        action="append",
        metavar="NAME=LOW:HIGH[:log]",
        help="interval of a numeric option, with --search random or optuna",
    )
    group.add_argument(
        "--search",
        metavar="METHOD",
        help="grid: every combination (default); ablation: the preset, and each value of --grid"
        " changed alone; random: --trials points drawn from --grid and"
        " --range; optuna: --trials points, the preset first and then each chosen from the results"
        " so far, for each algorithm and environment",
    )
    group.add_argument("--trials", type=int, metavar="N", help="points of a search (default: 20)")
    group.add_argument(
        "--metric",
        metavar="NAME",
        help="what --search optuna maximises, the mean over the last tenth of training of"
        " average_reward (default), episode_return or episode_average_reward",
    )
    group.add_argument(
        "--reference",
        action="append",
        metavar="ID=SCORE",
        help="with --search optuna, for each --env: search one setting for all environments,"
        " scored by the interquartile mean of score / |SCORE| over environments and seeds",
    )


def running_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options that `run_sweep` takes."""
    return {name: given[name] for name in RUNNING if name in given}


def add_running_options(parser: Parser) -> None:
    """Where and how the runs of a sweep are trained."""
    group = parser.add_argument_group("where and how to run it")
    group.add_argument(
        "--workers", type=int, metavar="N", help="runs at once (default: one for each core)"
    )
    group.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="train on a Ray cluster: auto for the one this machine belongs to, or HOST:PORT",
    )
    group.add_argument(
        "--retries",
        type=int,
        metavar="N",
        help="retries of a failed run, from its checkpoint (default: 1)",
    )
    group.add_argument(
        "--step-timeout",
        type=float,
        metavar="SECONDS",
        help="longest time of one environment step or reset, and of a worker without a sign of"
        " life, after which the run is retried and then listed in failures.json (default: 300; 0:"
        " no limit)",
    )
    group.add_argument("--quiet", action="store_true", help="no live table")


def _envs(given: Mapping[str, Any]) -> list[str]:
    """--env with --env-args."""
    from longrun.learning.envs.env_strings import parse_args, with_args

    args = parse_args(given.get("env_args", []))
    if args and len(given["env"]) > 1:
        raise InputError(
            "--env-args is for one --env; write those of several into their names, as in"
            " 'jax:criss-cross?regime=BM'"
        )
    return [with_args(env, args) for env in given["env"]]


def _create(algorithms: Sequence[str], given: Mapping[str, Any]) -> SweepFolder:
    """The sweep that the options describe."""
    from longrun.lab.sweeps.grids import parse_lists, parse_ranges
    from longrun.lab.sweeps.run_sweep import create_sweep

    if not algorithms:
        raise InputError(f"sweep needs an algorithm; valid: {', '.join(ALGORITHMS)}")
    if "env" not in given:
        raise InputError("sweep needs --env, for example --env Swimmer-v5 HalfCheetah-v5")
    first = whole_number("seed", given.get("seed", 0))
    count = whole_number("seeds", given.get("seeds", 1), 1)
    return create_sweep(
        given.get("out", Path("runs/sweep")),
        algorithms=algorithms,
        envs=_envs(given),
        steps=given.get("steps", DEFAULT_STEPS),
        seeds=range(first, first + count),
        options={n: v for a in algorithms for n, v in algorithm_options(a, dict(given)).items()},
        grid=parse_lists(given.get("grid", [])),
        ranges=parse_ranges(given.get("range", [])),
        references=_references(given.get("reference", [])),
        **{name: given[name] for name in PLAIN if name in given},
    )


def _references(texts: Sequence[str]) -> dict[str, float]:
    """The reference score of each environment from texts such as `Ant-v5=4079`."""
    references: dict[str, float] = {}
    for text in texts:
        env, _, number = text.rpartition("=")  # an environment's arguments have "=", too
        try:
            reference = float(number if env else "")
        except ValueError:
            raise InputError(f"--reference '{text}' must look like Ant-v5=4079") from None
        if env in references:
            raise InputError(f"--reference names {env} twice; give one number")
        references[env] = reference
    return references
