"""Opens environments, for one of the two loops, and runs, by their description or folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import gymnasium
from gymnasium.vector import VectorEnv

from longrun.base.checks import STEP_TIMEOUT
from longrun.base.errors import FolderError, InputError
from longrun.base.files import as_read
from longrun.learning.envs.factories import (
    EnvLike,
    close_env,
    env_factory,
    env_name,
    is_a,
    make_env,
    require_saved,
)
from longrun.learning.envs.native.protocol import Environment, native_env
from longrun.learning.envs.watchdog import making_limit
from longrun.learning.runs.run_folder import RunFolder
from longrun.learning.runs.spec import RunSpec, difference
from longrun.learning.train import checkpoint
from longrun.learning.train.device.loop import DeviceLoop
from longrun.learning.train.device.sharding import ends_all_hosts, is_first_host, wait_for_hosts
from longrun.learning.train.events import Snapshot
from longrun.learning.train.host.loop import HostLoop
from longrun.learning.train.new_policy import warn_of_wide_actions

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp import MDP

AnyEnv: TypeAlias = "EnvLike | Environment | MDP"
"""An id or env string, a Gymnasium environment, a function that makes one, a JAX-native one, or a
finite model."""
Loop: TypeAlias = HostLoop | DeviceLoop
"""Trains and measures policies on one environment, which has been opened; both have the same
methods."""


def open_env(env: AnyEnv, step_timeout: float = STEP_TIMEOUT) -> Loop:
    """The loop for an environment. Raises InputError if the environment cannot be used.

    Making a Gymnasium environment may take `step_timeout` seconds (0: no limit), but never less
    than five minutes, since modules are imported.
    """
    if is_a(env, "longrun.exact.tabular.mdp", "MDP"):
        from longrun.exact.tabular.gymnasium_tables import to_gymnasium

        return open_env(to_gymnasium(cast("MDP", env)))
    if (native := native_env(env)) is not None:
        return DeviceLoop.open(native)
    of_gymnasium = cast(EnvLike, env)
    factory = env_factory(of_gymnasium)
    with making_limit(env_name(factory), step_timeout):
        return _loop_of(of_gymnasium, make_env(factory))


def _loop_of(env: EnvLike, made: object) -> Loop:
    """The loop for `env`, which has made this; an environment of Gymnasium is closed."""
    if isinstance(made, Environment):  # `env` is a class or a function that makes one
        return DeviceLoop.open(made, env if isinstance(env, str) else None)
    if not isinstance(made, gymnasium.Env | VectorEnv):
        raise InputError(
            f"env={env!r} makes a {type(made).__name__}; it must make a gymnasium.Env, a VectorEnv"
            " or a longrun Environment"
        )
    try:
        return HostLoop.open(env, made)
    finally:
        close_env(made)  # type: ignore[arg-type]


@dataclass(frozen=True)
class OpenRun:
    """A run that can be trained: its environment is open, and it is known how far it is."""

    spec: RunSpec
    loop: Loop
    snapshots: Sequence[Snapshot]
    path: Path | None = None
    """the run folder; None without one"""
    is_saved: bool = False
    """whether the folder holds this run already"""
    digest: str | None = None
    """content hash of the checkpoint in the folder"""

    @property
    def done(self) -> list[int]:
        """Steps that each replica has done."""
        return [int(s.state.iteration) * self.spec.per_iteration for s in self.snapshots]

    def open_folder(self) -> RunFolder | None:
        """The folder, locked and ready for rows; only the first of several hosts has it."""
        if self.is_saved:
            wait_for_hosts("all have read the checkpoint")
        with ends_all_hosts():
            if self.path is None or not is_first_host():
                return None
            if self.is_saved:
                return RunFolder.reopen(self.path, self.spec, self.done, self.digest)
            return RunFolder.create(self.path, self.spec, self.loop.source)


def new_run(spec: RunSpec, path: Path | None) -> OpenRun:
    """A run before its first step, whose folder is yet to be made."""
    loop = open_env(spec.env, spec.step_timeout)
    return OpenRun(replace(spec, env=loop.name), loop, begun(loop, spec), path)


def begun(loop: Loop, spec: RunSpec) -> list[Snapshot]:
    """The replicas of a new run."""
    warn_of_wide_actions(loop.spaces, spec.configs)
    return _fresh(loop, spec)


def saved_run(path: Path, trust: bool = False) -> OpenRun:
    """The run of a folder with its checkpoint, or at its start if it has none yet.

    `trust` allows to import the module that the run names for its environment.
    """
    spec = RunFolder(path).read_spec()
    require_saved(spec.env, path, trust)
    loop = open_env(spec.env, spec.step_timeout)
    if not (path / "checkpoint" / "checkpoint.json").exists():
        return OpenRun(spec, loop, _fresh(loop, spec), path, is_saved=True)
    saved = checkpoint.load(path)
    there, own = as_read(spec.as_json()), as_read(saved.spec.as_json())
    edited = ("algorithm", "options", "replicas")
    if why := difference({n: there[n] for n in edited}, {n: own[n] for n in edited}):
        raise FolderError(
            f"'{path / 'config.json'}' has {why} as in its checkpoint; what defines a run cannot be"
            " changed: write the old value there again"
        )
    return OpenRun(spec, loop, saved.snapshots, path, is_saved=True, digest=saved.digest)


def extended(run: OpenRun, steps: int, **changes: Any) -> OpenRun:
    """The run up to `steps`, with other changes of its description.

    More steps than a finished training had are another one if something decays over it, as with
    `learn`: what has fallen to 0 starts anew.
    """
    done = min(run.done)
    another = (
        any(c.learning_rate_decay for c in run.spec.configs) and run.spec.steps <= done < steps
    )
    begins = done if another else min(run.spec.begins, done)
    return replace(run, spec=replace(run.spec, steps=steps, begins=begins, **changes))


def _fresh(loop: Loop, spec: RunSpec) -> list[Snapshot]:
    return [loop.fresh_snapshot(c, s) for c, s in zip(spec.configs, spec.seeds, strict=True)]
