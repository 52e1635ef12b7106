"""The interface of the two training loops, and the choice between them.

The choice is made once, when an environment is opened; all other code calls the interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import gymnasium
from gymnasium.vector import VectorEnv

from longrun.base.checks import STEP_TIMEOUT
from longrun.base.errors import InputError
from longrun.learning.envs.factories import (
    EnvLike,
    close_env,
    env_factory,
    env_name,
    is_a,
    make_env,
)
from longrun.learning.envs.native.protocol import Environment, native_env
from longrun.learning.envs.spaces import Spaces
from longrun.learning.envs.watchdog import making_limit
from longrun.learning.learn.types import TrainState
from longrun.learning.options.config import Config
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.device.loop import DeviceLoop
from longrun.learning.train.evaluation import Streams
from longrun.learning.train.events import OnEvents, Seconds
from longrun.learning.train.host.loop import HostLoop
from longrun.learning.train.snapshot import Snapshot

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp import MDP

AnyEnv: TypeAlias = "EnvLike | Environment | MDP"
"""An id or env string, a Gymnasium environment, a function that makes one, a JAX-native one, or a
finite model."""


class Loop(Protocol):
    """Trains and measures policies on one environment, which has been opened."""

    @property
    def env(self) -> Any:
        """What was given, or the JAX-native environment that was made from it."""

    @property
    def name(self) -> str:
        """What run folders and checkpoints call the environment."""

    @property
    def is_named(self) -> bool:
        """Whether `name` identifies the environment, so that checkpoints can compare it."""

    @property
    def source(self) -> dict[str, Any]:
        """What made the environment, for config.json."""

    @property
    def vector_size(self) -> int:
        """The number of environments, if the environment itself determines it; otherwise 0."""

    @property
    def spaces(self) -> Spaces: ...

    @property
    def observation_space(self) -> gymnasium.Space[Any]: ...

    @property
    def action_space(self) -> gymnasium.Space[Any]: ...

    def fresh_snapshot(self, config: Config, seed: int) -> Snapshot:
        """A replica before its first step."""

    def train(
        self,
        spec: RunSpec,
        starts: Sequence[Snapshot],
        on_events: OnEvents,
        keep_environments: bool = False,
    ) -> Seconds:
        """Train all replicas from their snapshots; `on_events` may return False to stop."""

    def evaluation_shape(self, steps: int) -> tuple[int, int]:
        """(environments E, steps S of each) for an evaluation of so many steps in total."""

    def simulate(
        self,
        config: Config,
        state: TrainState,
        seed: int,
        shape: tuple[int, int],
        explore: bool,
        step_timeout: float = STEP_TIMEOUT,
    ) -> Streams:
        """S steps in E environments (shape is E, S).

        Each starts from a reset. Actions are drawn if `explore`, else the most likely ones.
        A Gymnasium environment that takes longer than `step_timeout` seconds for a step (0: no
        limit) ends it with a HungError.
        """

    def close(self) -> None:
        """Close the environments that were kept from the last training, if any."""


def open_env(env: AnyEnv, step_timeout: float = STEP_TIMEOUT) -> Loop:
    """The loop for an environment. Raises InputError if the environment cannot be used.

    Making a Gymnasium environment may take `step_timeout` seconds (0: no limit), but never less
    than five minutes, since modules are imported.
    """
    if is_a(env, "longrun.exact.tabular.mdp", "MDP"):
        from longrun.exact.tabular.gymnasium_tables import to_gymnasium

        return open_env(to_gymnasium(cast("MDP", env)))
    if isinstance(env, Environment):
        return DeviceLoop.open(env)
    native = native_env(env)
    if native is not None:
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
