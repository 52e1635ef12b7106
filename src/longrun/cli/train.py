"""`longrun train`: its usage and options. `train_run` does the work, with the heavy imports."""

from __future__ import annotations

from pathlib import Path

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.cli.options import (
    Arguments,
    Parser,
    add_algorithm_options,
    add_evaluation_options,
    add_length_options,
    add_preset_option,
    add_trust_option,
    parse,
)
from longrun.learning.options.config import ALGORITHMS

USAGE = """usage: longrun train ALGORITHM --env ID [options]
       longrun train --resume --out RUN [options]

longrun train apo --help lists the options of an algorithm.

algorithms, criterion x policy step:
  apo    average reward, clipped        (Average Policy Optimization)
  ppo    discounted,     clipped
  atrpo  average reward, trust region
  trpo   discounted,     trust region"""


def train_command(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    is_named = not arguments[0].startswith("-")
    algorithm = known("algorithm", arguments[0].lower(), ALGORITHMS) if is_named else None
    built_in = [a.removeprefix("jax:").partition("?")[0] for a in arguments if a[:4] == "jax:"]
    if built_in and {"-h", "--help"} & set(arguments):
        from longrun.learning.envs.builtin_envs import explained

        print(explained(built_in[0]))
        return 0
    given = parse(_parser(algorithm), arguments[is_named:])
    from longrun.cli.train_run import resume, start

    if given.get("resume"):
        return _show_finished(resume(algorithm, given))
    if algorithm is None:
        raise InputError(f"train needs an algorithm; valid: {', '.join(ALGORITHMS)}")
    return _show_finished(start(algorithm, given))


def _parser(algorithm: str | None) -> Parser:
    """The options of one algorithm, or of all: a run that is resumed knows its own."""
    if algorithm is None:
        algorithms, usage = list(ALGORITHMS), "longrun train --resume --out RUN [options]"
        about = "Resume a run from its checkpoint. --steps may be larger than before, and"
        about += " --workers, --step-timeout and the evaluations may change; what else is given"
        about += " must be as it was."
    else:
        algorithms, usage = [algorithm], f"longrun train {algorithm} --env ID [options]"
        about = ALGORITHMS[algorithm].__doc__ or ""
    prog = " ".join(["longrun train", *([algorithm] if algorithm else [])])
    example = f"example: {prog} --env Swimmer-v5 --steps 600000 --seeds 3 --out runs/swimmer"
    parser = Parser(about, algorithms, prog=prog, usage=usage, epilog=example if algorithm else "")
    _add_run_options(parser)
    add_algorithm_options(parser, *(ALGORITHMS[name] for name in algorithms))
    return parser


def _show_finished(run: Path) -> int:
    """Print the table of the run's last evaluations, on the first of several hosts."""
    from longrun.learning.train.device.sharding import is_first_host

    if not is_first_host():
        return 0
    if not (run / "evaluations.csv").exists():
        from longrun.cli.train_run import command_for
        from longrun.learning.runs.run_folder import RunFolder

        env = RunFolder(run).read_spec().env
        print(f"the policy was not evaluated; {command_for('evaluate', run, env)} does so")
    else:
        from longrun.lab.results.comparison_table import print_final
        from longrun.lab.results.read import read_results

        print_final(read_results([run]))
        print(f"saved: {run}   next: longrun plot {run}")
    return 0


def _add_run_options(parser: Parser) -> None:
    """Options that are the same for every algorithm."""
    group = parser.add_argument_group("run")
    _add_environment_options(group)
    add_length_options(group)
    group.add_argument(
        "--grid",
        action="append",
        metavar="NAME=A,B,...",
        help="train one setting for each value of a numeric option or of limits (limits=falls=0.01,"
        "falls=0.1); with several --grid, one for each combination of values",
    )
    add_preset_option(group)
    group.add_argument(
        "--out", type=Path, metavar="RUN", help="run folder (default: runs/ALGORITHM-ENV)"
    )
    group.add_argument(
        "--name",
        metavar="TEXT",
        help="what tables and legends call the run; runs of one name count as seeds of one setting",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="resume the run in --out from its checkpoint; a larger --steps extends it, and if it"
        " was finished, what decays over a run starts anew",
    )
    add_trust_option(group)
    group.add_argument(
        "--workers",
        dest="num_workers",
        type=int,
        metavar="N",
        help="processes that simulate environments (default: one for each core; 0: simulate in this"
        " process)",
    )
    group.add_argument(
        "--step-timeout",
        type=float,
        metavar="SECONDS",
        help="longest time of one environment step or reset, after which the run ends with an"
        " error (default: 300; 0: no limit)",
    )
    group.add_argument(
        "--distributed",
        metavar="WHERE",
        help="this process is one of several that train one run on all their devices: auto (on"
        " Slurm, Open MPI, Kubernetes, TPU) or ADDRESS:PORT,PROCESSES,INDEX",
    )
    add_evaluation_options(group)
    _add_callback_options(group)
    group.add_argument("--quiet", action="store_true", help="no progress bar")


def _add_callback_options(group: Arguments) -> None:
    """What `longrun.callbacks` has for Python."""
    group.add_argument(
        "--stop-at",
        type=float,
        metavar="RATE",
        help="stop when an evaluation of each replica has reached this average reward",
    )
    group.add_argument(
        "--save-best",
        action="store_true",
        help="also save each replica as it was at its best evaluation, to RUN/best",
    )
    group.add_argument("--tensorboard", action="store_true", help="also write TensorBoard files")
    group.add_argument("--wandb", metavar="PROJECT", help="also log to Weights & Biases")
    group.add_argument("--mlflow", metavar="EXPERIMENT", help="also log to MLflow")


def _add_environment_options(group: Arguments) -> None:
    group.add_argument(
        "--env",
        metavar="ID",
        help="Gymnasium environment, e.g. Swimmer-v5; your own as module:Id-v0, or as"
        " module:function, which makes one (or a class); or one that runs inside the compiled"
        " program: jax:criss-cross, brax:halfcheetah, playground:CheetahRun, gymnax:Pendulum-v1",
    )
    group.add_argument(
        "--env-args",
        nargs="+",
        metavar="NAME=VALUE",
        help="arguments of the environment, e.g. regime=BM; those of a built-in one are listed by"
        " --env jax:criss-cross --help",
    )
