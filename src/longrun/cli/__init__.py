"""The command line: one function for each command.

Heavy imports wait until a command needs them, so that `--help` and wrong input answer at once.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from longrun.cli.options import Parser, add_algorithm_options, add_run_options, parse, whole
from longrun.config import ALGORITHMS, known
from longrun.errors import InputError, LongrunError

COMMANDS = {
    "train": "learn a policy, several seeds and settings at once",
    "evaluate": "measure the long-run reward of a run's policies",
    "sweep": "train many settings, seeds, environments and algorithms, on all cores or a cluster",
    "compare": "tables with statistics: interquartile means, intervals, probability of improvement",
    "plot": "draw learning curves of runs and sweeps and print their table",
    "report": "one HTML page about a run or a sweep, with curves, tables and moving pictures",
    "reproduce": "the paper's experiments: figure1, figure2, appendix, grid",
    "map": "draw a run's policy beside the optimal one, for queueing networks",
    "solve": "the optimal long-run reward of a finite model, certified",
}

USAGE = """longrun: reinforcement learning under the long-run average reward

usage: longrun COMMAND ...   (longrun COMMAND --help explains each; --debug shows tracebacks)

{commands}

for example:
  longrun train apo --env Swimmer-v5 --steps 300000 --seeds 3 --out runs/swimmer
  longrun evaluate runs/swimmer --steps 10000
  longrun plot runs/swimmer --out curves.png
  longrun sweep apo ppo --env Swimmer-v5 --grid discount=0.99,0.999 --seeds 5 --out runs/sweep
  longrun compare runs/sweep
  longrun report runs/sweep --out sweep.html
  longrun reproduce figure1 --scale smoke
  longrun map runs/criss-cross --out policy.png
  longrun solve criss-cross --regime BM"""

TRAIN_USAGE = """usage: longrun train ALGORITHM --env ENV [options]   (see longrun train apo -h)
       longrun train --resume --out RUN

algorithms, criterion x policy step:
  apo    average reward, clipped        (Average Policy Optimization)
  ppo    discounted,     clipped
  atrpo  average reward, trust region
  trpo   discounted,     trust region"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 failed, 2 wrong input, 130 interrupted.

    Errors that longrun raises on purpose become one line. Any other exception is a defect and keeps
    its traceback; `--debug` or LONGRUN_DEBUG=1 shows it for all of them.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments or os.environ.get("LONGRUN_DEBUG", "0") not in ("", "0")
    arguments = [argument for argument in arguments if argument != "--debug"]
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for --env module:Id, last so that it hides nothing
    try:
        with _one_line_warnings():
            return _dispatch(arguments)
    except (LongrunError, OSError) as error:
        if debug:
            traceback.print_exc()
        print(f"longrun: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt as stop:
        print(f"longrun: interrupted{''.join(str(a) for a in stop.args)}", file=sys.stderr)
        return 130


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    usual = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"longrun: warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        commands = "\n".join(f"  {name:10}{text}" for name, text in COMMANDS.items())
        print(USAGE.format(commands=commands))
        return 0
    if arguments[0] == "--version":
        from longrun import __version__

        print(__version__)
        return 0
    command = known("command", arguments[0], COMMANDS)
    if command == "train":
        return _train(arguments[1:])
    if command == "evaluate":
        return _evaluate(arguments[1:])
    module = import_module(f"longrun.cli.{command}")
    status: int = getattr(module, f"{command}_command")(arguments[1:])
    return status


def _train(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(TRAIN_USAGE)
        return 0
    if arguments[0].startswith("-"):
        return _resume_only(arguments)
    algorithm = known("algorithm", arguments[0].lower(), ALGORITHMS)
    built_in = [a.removeprefix("jax:").partition("?")[0] for a in arguments if a[:4] == "jax:"]
    if built_in and {"-h", "--help"} & set(arguments):
        from longrun.builtin_envs import explained

        print(explained(built_in[0]))
        return 0
    prog = f"longrun train {algorithm}"
    parser = Parser(
        prog=prog,
        usage=f"{prog} --env ID [options]",
        description=ALGORITHMS[algorithm].__doc__,
        epilog=f"example: {prog} --env Swimmer-v5 --steps 300000 --seeds 3 --out runs/swimmer",
    )
    add_run_options(parser)
    add_algorithm_options(parser, ALGORITHMS[algorithm])
    given = parse(parser, arguments[1:])
    from longrun.cli.train import resume, train

    run = resume(algorithm, given) if given.get("resume") else train(algorithm, given)
    return _show_finished(run)


def _resume_only(arguments: list[str]) -> int:
    parser = Parser(prog="longrun train", description="Continue a run from its checkpoint.")
    add_run_options(parser)
    given = parse(parser, arguments)
    if not given.get("resume"):
        raise InputError(f"train needs an algorithm; valid: {', '.join(ALGORITHMS)}")
    from longrun.cli.train import resume

    return _show_finished(resume(None, given))


def _show_finished(run: Path) -> int:
    from longrun.train.device.sharding import is_first_host

    if is_first_host() and (run / "evaluations.csv").exists():
        from longrun.results.read import read_results
        from longrun.results.tables import print_final

        print_final(read_results([run]))
    return 0


def _evaluate(arguments: list[str]) -> int:
    parser = Parser(
        prog="longrun evaluate",
        description="Run each replica's deterministic policy for a fixed number of steps and print"
        " its reward rate with a batch-means 95 % interval, beside the episode metrics.",
    )
    parser.add_argument("run", type=Path, help="run folder or saved agent")
    parser.add_argument("--steps", type=whole, help="steps of the evaluation (default: 10000)")
    given = parse(parser, arguments)
    from longrun.agent import AGENTS
    from longrun.results.tables import print_reports
    from longrun.train import checkpoint

    saved = checkpoint.load(given["run"])
    kind = AGENTS[saved.algorithm]
    rows = []
    for replica, seed in enumerate(saved.seeds):
        agent = kind.from_checkpoint(saved, given["run"], replica)
        report = agent.evaluate(given.get("steps", 10_000))
        rows.append((f"{replica} (seed {seed}) after {agent.steps_:,} steps", report))
    print_reports(rows)
    return 0
