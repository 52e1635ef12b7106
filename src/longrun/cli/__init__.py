"""The command line: dispatch to the commands, one module for each, and their errors.

Commands import heavy modules only when they need them, so that `--help` and wrong input are
answered at once.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module

from longrun.base.checks import known
from longrun.base.errors import EnvironmentFailure, InputError, LongrunError

COMMANDS = {
    "train": "train policies: one algorithm on one environment, several seeds and settings",
    "evaluate": "measure the long-run reward of a run's policies",
    "sweep": "train many settings, seeds, environments and algorithms, on all cores or a cluster",
    "compare": "compare settings: interquartile means, intervals, probability of improvement",
    "plot": "draw learning curves of runs and sweeps and print their table",
    "report": "write one HTML page about a run or a sweep, with curves, tables and animations",
    "export": "write a run's policy as an ONNX file",
    "reproduce": "run the paper's experiments: figure1, figure2, appendix, grid",
    "map": "draw a run's policy beside the optimal one, for networks of queues and inventories",
    "solve": "compute the optimal average reward of a finite model, between certified bounds",
}

USAGE = """longrun: reinforcement learning under the long-run average reward

usage: longrun COMMAND ...   (longrun COMMAND --help explains each; --debug shows tracebacks)

{commands}

for example:
  longrun train apo --env Swimmer-v5 --steps 600000 --seeds 3 --out runs/swimmer
  longrun evaluate runs/swimmer --steps 10000
  longrun export runs/swimmer --out policy.onnx
  longrun plot runs/swimmer --out curves.png
  longrun sweep apo ppo --env Swimmer-v5 --grid discount=0.99,0.999 --seeds 5 --out runs/sweep
  longrun compare runs/sweep
  longrun report runs/sweep --out sweep.html
  longrun reproduce figure1 --scale smoke
  longrun map runs/criss-cross --out policy.png
  longrun solve criss-cross --regime BM"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status: 0 done, 1 failed, 2 wrong input, 130 interrupted, 141 unread.

    An error that longrun raises on purpose is printed in one line, with `--debug` or
    LONGRUN_DEBUG=1 after its traceback. Any other exception is a defect and is not caught.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments or os.environ.get("LONGRUN_DEBUG", "0") not in ("", "0")
    arguments = [argument for argument in arguments if argument != "--debug"]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be no text
    try:
        with _one_line_warnings():
            try:
                status = _dispatch(arguments)
            except SystemExit as end:  # argparse ends --help this way, and SIGTERM a training
                status = int(end.code or 0)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, so that its errors are those of the command
            return status
    except (LongrunError, OSError) as error:
        if isinstance(error, BrokenPipeError) and _output_is_unread():
            # Python would report what is still to be written when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + signal.SIGPIPE  # as shells report it of other programs
        if debug:
            traceback.print_exc()
        # An environment may have raised another error, whose traceback says more.
        hidden = error.__cause__ or getattr(error, "__notes__", None)
        is_environments = isinstance(error, EnvironmentFailure) and hidden and not debug
        more = "; --debug shows the traceback" if is_environments else ""
        print(f"longrun: {error}{more}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except MemoryError as error:
        if debug:
            traceback.print_exc()
        print(f"longrun: not enough memory; choose a smaller size ({error})", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "matplotlib":
            raise
        print("longrun: figures need a package; pip install matplotlib", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"longrun: interrupted{''.join(str(a) for a in stop.args)}", file=sys.stderr)
        return 130


def _output_is_unread() -> bool:
    """Whether the output is a pipe whose reader has ended, as of `| head`."""
    with suppress(OSError, AttributeError):  # no output, or one without a file
        pipe = select.poll()
        pipe.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in pipe.poll(0))
    return False


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Print warnings without the place in the code that they come from."""
    usual = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"longrun: warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _dispatch(arguments: list[str]) -> int:
    """Run `COMMAND_command` of the module `longrun.cli.COMMAND`; its exit status."""
    if not arguments or arguments[0] in ("-h", "--help"):
        commands = "\n".join(f"  {name:10}{text}" for name, text in COMMANDS.items())
        print(USAGE.format(commands=commands))
        return 0
    if arguments[0] == "--version":
        from longrun import __version__

        print(__version__)
        return 0
    command = known("command", arguments[0], COMMANDS)
    module = import_module(f"longrun.cli.{command}")
    status: int = getattr(module, f"{command}_command")(arguments[1:])
    return status
