"""`longrun train`: from options to a run folder."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longrun.cli.options import algorithm_options
from longrun.config import Config, known, make_config, numeric_fields, whole_number
from longrun.envs.env_strings import parse_args, with_args
from longrun.envs.native.lookup import PREFIXES
from longrun.errors import InputError
from longrun.train import checkpoint
from longrun.train import start_or_resume as runs
from longrun.train.device.sharding import is_first_host, join_hosts
from longrun.train.loops import open_env
from longrun.train.progress import require_tensorboard
from longrun.train.run_folder import RunFolder
from longrun.train.session import Session

SETTINGS = {"workers": "num_workers", "eval_every": "eval_every", "eval_steps": "eval_steps"}


def train(algorithm: str, given: dict[str, Any]) -> Path:
    """A new run; returns its folder."""
    if "env" not in given:
        raise InputError("train needs --env, for example --env Swimmer-v5")
    preset, steps = given.get("preset", "paper"), given.get("steps", 1_000_000)
    config = make_config(algorithm, preset, **algorithm_options(algorithm, given))
    configs, seeds = replicas_of(config, given)
    name = _env(given)
    _join_hosts(name, given)
    path: Path = given.get("out") or _free_folder(Path("runs"), algorithm, name)
    if given.get("tensorboard"):
        require_tensorboard(path)
    session = runs.start(path, name, configs, seeds, steps, preset, **_settings(given))
    _run(session, path, given)
    return path


def _run(session: Session, path: Path, given: dict[str, Any]) -> None:
    first = is_first_host()
    if first:
        steps = session.job.iterations * session.job.configs[0].steps_per_iteration
        print(f"writing to {path}, up to {steps:,} steps", flush=True)
    try:
        show = None if first and not given.get("quiet") else False
        session.run(show, bool(given.get("tensorboard")))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"; longrun train --resume --out {path} goes on") from None


def resume(algorithm: str | None, given: dict[str, Any]) -> Path:
    """Go on with the run in --out; options that shape it must be the same, --steps may grow."""
    if "out" not in given:
        raise InputError("--resume needs --out, the run's folder")
    path: Path = given["out"]
    _join_hosts(RunFolder(path).read_config()["env"], given)
    run = runs.load(path)
    saved, config = run.checkpoint, run.config
    wanted = _canonical(config["env"], given)
    checkpoint.require_same(saved, path, algorithm or saved.algorithm, wanted, run.loop.spaces)
    _require_unchanged(saved.configs, saved.seeds, algorithm_options(saved.algorithm, given), given)
    preset = config.get("preset", "paper")
    if given.get("preset", preset) != preset:
        raise InputError(
            f"preset={given['preset']} cannot be changed on --resume; the run has {preset}"
        )
    steps = whole_number("steps", given.get("steps", config["steps"]), 1)
    if min(run.done) >= steps:
        print(f"{path} is at {min(run.done):,} steps already; give a larger --steps to go on")
        return path
    _run(runs.resume(run, steps, **_settings(given)), path, given)
    return path


def _canonical(saved: str, given: dict[str, Any]) -> str:
    """The name of the environment that --env and --env-args ask for; without them, the saved."""
    if "env" not in given and "env_args" not in given:
        return saved
    return open_env(_env({"env": saved} | given)).name


def replicas_of(config: Config, given: dict[str, Any]) -> tuple[list[Config], list[int]]:
    """One configuration and seed for each replica: every point of the grid with every seed."""
    count = whole_number("seeds", given.get("seeds", 1), 1)
    first = whole_number("seed", given.get("seed", 0))
    grid = [_grid_axis(config, text) for text in given.get("grid", [])]
    if first + count > 2**32:
        raise InputError(f"--seed {first} and --seeds {count} reach beyond 2**32 - 1; lower --seed")
    names = [axis[0][0] for axis in grid]
    if len(set(names)) < len(names):
        raise InputError(
            f"--grid names {max(names, key=names.count)} twice; list all its values once"
        )
    points: list[dict[str, Any]] = [dict(point) for point in itertools.product(*grid)]
    pairs = [
        (dataclasses.replace(config, **point), seed)
        for point in points
        for seed in range(first, first + count)
    ]
    return [c for c, _ in pairs], [s for _, s in pairs]


def _grid_axis(config: Config, text: str) -> list[tuple[str, float]]:
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise InputError(f"--grid '{text}' must look like value_constraint=0,0.1,0.3")
    name = known(
        "numeric option for --grid", name.strip().replace("-", "_"), numeric_fields(config)
    )
    try:
        return [(name, float(value)) for value in values.split(",")]
    except ValueError:
        raise InputError(f"--grid '{text}' must list numbers, such as {name}=0.1,0.3") from None


def _require_unchanged(
    configs: Sequence[Config], seeds: Sequence[int], options: dict[str, Any], given: dict[str, Any]
) -> None:
    for name, value in options.items():
        found = getattr(configs[0], name)
        if (tuple(value) if isinstance(value, list) else value) != found:
            raise InputError(f"{name}={value} cannot be changed on --resume; the run has {found}")
    same = given.get("seeds", len(set(seeds))) == len(set(seeds))
    if not same or given.get("seed", min(seeds)) != min(seeds) or "grid" in given:
        raise InputError("--seed, --seeds and --grid cannot be changed on --resume; leave them out")


def _join_hosts(name: str, given: dict[str, Any]) -> None:
    """Before JAX does anything; the run is then one of JAX-native environments alone."""
    if "distributed" in given:
        if not name.startswith(tuple(f"{prefix}:" for prefix in PREFIXES)):
            raise InputError(
                f"--distributed trains environments inside the compiled program, such as"
                f" jax:criss-cross, not '{name}'"
            )
        join_hosts(given["distributed"])


def _env(given: dict[str, Any]) -> str:
    """--env and --env-args as one string."""
    name: str = with_args(given["env"], parse_args(given.get("env_args", [])))
    return name


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    settings = {name: given[option] for option, name in SETTINGS.items() if option in given}
    return settings | ({"eval_every": 0} if given.get("no_eval") else {})


def _free_folder(parent: Path, algorithm: str, env: str) -> Path:
    """parent/algorithm-env, or the first with -2, -3, ... behind it that holds no run."""
    name = re.sub(r"[^\w.-]+", "-", f"{algorithm}-{env}")
    numbered = itertools.chain([name], (f"{name}-{i}" for i in itertools.count(2)))
    return next(parent / n for n in numbered if not (parent / n).exists())
