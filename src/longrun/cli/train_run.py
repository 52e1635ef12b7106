"""Start or resume a run as the options of `longrun train` say."""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path
from typing import Any

from longrun.base.checks import MOST_STEPS, whole_number
from longrun.base.errors import InputError
from longrun.cli.options import algorithm_options
from longrun.lab.sweeps.grids import parse_lists, points_of
from longrun.learning import callbacks
from longrun.learning.envs.env_strings import parse_args, with_args
from longrun.learning.envs.factories import needs_trust
from longrun.learning.envs.native.protocol import is_native
from longrun.learning.options.config import ALGORITHMS, Config, numeric_fields
from longrun.learning.options.config_options import (
    make_config,
    option_names,
    saved_config,
    value_text,
    why_unknown,
)
from longrun.learning.options.presets import DEFAULT
from longrun.learning.runs.run_folder import RunFolder, is_finished
from longrun.learning.runs.spec import DEFAULT_STEPS, RunSpec
from longrun.learning.train.checkpoint import require_algorithm
from longrun.learning.train.device.sharding import is_first_host, join_hosts
from longrun.learning.train.experiment_trackers import require_tensorboard, to_tensorboard
from longrun.learning.train.open_run import OpenRun, extended, new_run, open_env, saved_run
from longrun.learning.train.progress import OnLog
from longrun.learning.train.training import Training

CHANGEABLE = ("num_workers", "step_timeout", "eval_every", "eval_steps")
"""Options that may change on --resume, besides --steps."""


def start(algorithm: str, given: dict[str, Any]) -> Path:
    """Train a new run; its folder."""
    if "env" not in given:
        raise InputError("train needs --env, for example --env Swimmer-v5")
    preset = given.get("preset", DEFAULT)
    configs, seeds = _replicas(algorithm, preset, given)
    spec = RunSpec(
        env=_env(given),
        configs=tuple(configs),
        seeds=tuple(seeds),
        steps=whole_number("steps", given.get("steps", DEFAULT_STEPS), 1, MOST_STEPS),
        preset=preset,
        name=given.get("name"),
        **{name: given[name] for name in CHANGEABLE if name in given},
    )
    _join_hosts(spec.env, given)
    path: Path = given.get("out") or _free_folder(Path("runs"), algorithm, spec.env)
    _run(new_run(spec, path), path, given)
    return path


def resume(algorithm: str | None, given: dict[str, Any]) -> Path:
    """Resume the run in --out; its folder. --steps may grow, other options must be the same."""
    if "out" not in given:
        raise InputError("--resume needs --out, the run's folder")
    path: Path = given["out"]
    _join_hosts(RunFolder(path).read_spec().env, given)
    run = saved_run(path, trust=given.get("trust", "env" in given))
    spec, done = run.spec, min(run.done)
    require_algorithm(spec, path, algorithm or spec.algorithm)
    _require_unchanged(spec, given)
    steps = whole_number("steps", given.get("steps", spec.steps), 1, MOST_STEPS)
    if steps <= done < spec.steps:
        print(
            f"{path} is at {done:,} of {spec.steps:,} steps, and --steps {steps:,} is not more;"
            f" {command_for('train --resume --out', path, spec.env)} finishes it"
        )
        return path
    if done >= steps and is_finished(path, steps):
        print(f"{path} is at {done:,} steps already; give a larger --steps to resume it")
        return path
    # A run that was killed before its summary has nothing to train; it writes the summary.
    changes = {name: given[name] for name in CHANGEABLE if name in given}
    longer = extended(run, max(steps, done), **changes)
    if longer.spec.begins > spec.begins and is_first_host():
        print(
            "what decays over a run, such as the learning rate, starts anew for the steps to come"
        )
    _run(longer, path, given)
    return path


def _require_unchanged(spec: RunSpec, given: dict[str, Any]) -> None:
    """Raise InputError if anything is given that differs from the run and cannot change."""
    own, seeds = vars(spec.configs[0]), set(spec.seeds)
    there = own | {"env": spec.env, "preset": spec.preset, "name": spec.name}
    there |= {"seed": min(seeds), "seeds": len(seeds), "grid": "its own"}
    fields = {name for kind in ALGORITHMS.values() for name in option_names(kind)}
    options = {name: value for name, value in given.items() if name in fields}
    here = given | vars(saved_config(spec.algorithm, own | options))
    if "env" in given or "env_args" in given:
        here["env"] = open_env(_env({"env": spec.env} | given)).name
    for name in here.keys() & there.keys():
        if here[name] != there[name]:
            raise InputError(
                f"{name}={value_text(here[name])} cannot be changed on --resume, the run has"
                f" {value_text(there[name])}; leave it out"
            )


def _run(run: OpenRun, path: Path, given: dict[str, Any]) -> None:
    """Train; on the first of several hosts, say where and show the progress."""
    first = is_first_host()
    if given.get("tensorboard"):
        require_tensorboard(path)
    training = Training(run, _callbacks(given, first))
    if first:
        steps = run.spec.iterations * run.spec.per_iteration
        print(f"writing to {path}, up to {steps:,} steps", flush=True)
        config = run.spec.configs[0]
        if config.adapts_lambda and not (
            run.spec.begins or config.has_time_to_adapt(run.spec.iterations)
        ):
            print(f"note: short run, λ fixed at {config.gae_lambda:g}", flush=True)
    again = f"{command_for('train --resume --out', path, run.loop.name)} resumes it"

    def end_at_once() -> None:
        """End without waiting for threads that compile: the last checkpoint is on disk."""
        os.write(2, f"longrun: interrupted; {again}\n".encode())
        os._exit(130)

    try:
        show = None if first and not given.get("quiet") else False
        training.run(show, end_at_once)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"; {again}") from None
    except SystemExit:
        print(f"longrun: terminated; {again}", file=sys.stderr)
        raise


def _callbacks(given: dict[str, Any], first: bool) -> list[OnLog]:
    """Callbacks that the options ask for; all hosts stop at the same time, the first one writes."""
    found = [callbacks.stop_at(given["stop_at"])] if "stop_at" in given else []
    if first:
        found += [callbacks.save_best()] if given.get("save_best") else []
        found += [callbacks.to_wandb(given["wandb"])] if "wandb" in given else []
        found += [callbacks.to_mlflow(given["mlflow"])] if "mlflow" in given else []
        found += [to_tensorboard()] if given.get("tensorboard") else []
    return found


def command_for(command: str, path: Path, env: str) -> str:
    """A command for a run, with --trust if its environment's module has to be imported."""
    return f"longrun {command} {path}{' --trust' if needs_trust(env) else ''}"


def _replicas(algorithm: str, preset: str, given: dict[str, Any]) -> tuple[list[Config], list[int]]:
    """The configuration and the seed of each replica: every point of the grid with every seed."""
    options = algorithm_options(algorithm, given)
    config = make_config(algorithm, preset, **options)
    count = whole_number("seeds", given.get("seeds", 1), 1)
    first = whole_number("seed", given.get("seed", 0))
    if first + count > 2**32:
        raise InputError(f"--seed {first} and --seeds {count} reach beyond 2**32 - 1; lower --seed")
    grid, numeric = parse_lists(given.get("grid", [])), [*numeric_fields(config), "limits"]
    for name in grid:
        if why := why_unknown(name, [algorithm]):
            raise InputError(f"unknown option for --grid '{name}'; {why}")
        if name not in numeric:
            raise InputError(
                f"--grid {name}: replicas of one run differ in {', '.join(numeric)} alone; longrun"
                f" sweep --grid {name}=... trains runs that differ in any option"
            )
    pairs = [
        (make_config(algorithm, preset, **{**options, **point}), seed)
        for point in points_of(grid)
        for seed in range(first, first + count)
    ]
    if len({tuple(name for name, _ in c.limits) for c, _ in pairs}) > 1:
        raise InputError(
            "--grid: limits of one run must be on the same costs; use longrun sweep for others"
        )
    return [c for c, _ in pairs], [s for _, s in pairs]


def _join_hosts(name: str, given: dict[str, Any]) -> None:
    """Join the other processes, before JAX is used. Raises InputError without a native env."""
    if "distributed" in given:
        if not is_native(name):
            raise InputError(
                f"--distributed trains environments inside the compiled program, such as"
                f" jax:criss-cross, not '{name}'"
            )
        join_hosts(given["distributed"])


def _env(given: dict[str, Any]) -> str:
    """--env and --env-args as one string."""
    name: str = with_args(given["env"], parse_args(given.get("env_args", [])))
    return name


def _free_folder(parent: Path, algorithm: str, env: str) -> Path:
    """parent/algorithm-env, or the first of ...-2, ...-3 that does not exist."""
    name = re.sub(r"[^\w.-]+", "-", f"{algorithm}-{env}")
    numbered = itertools.chain([name], (f"{name}-{i}" for i in itertools.count(2)))
    return next(parent / n for n in numbered if not (parent / n).exists())
