"""The interface of a JAX-native environment: two pure functions, and its spaces.

`batching.py` does batching, time limits and resets for all environments. It also clips actions,
unless `action_bounds="raw"` asks that the environment gets what was sampled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from longrun.base.errors import EnvironmentFailure, InputError
from longrun.learning.envs.env_strings import NATIVE_MAKERS, split_env
from longrun.learning.envs.spaces import Spaces

if TYPE_CHECKING:
    from longrun.exact.tabular.mdp import MDP


class Step(NamedTuple):
    """The result of one step of one environment."""

    state: Any
    """a pytree of arrays; no PRNG keys, since each step is given its own"""
    obs: jax.Array
    """[D] float32, of the true successor: never of the state after a reset"""
    reward: jax.Array
    """[]"""
    terminated: jax.Array | bool
    """[] bool; a time limit is not a termination"""
    costs: dict[str, jax.Array] | tuple[()] = ()
    """[] each, by name, the same names in every step; () for none"""


class Environment(ABC):
    """A JAX-native environment. It is hashable, since it shapes compiled programs: use a frozen
    dataclass, or keep hashing by identity.

    Where `spaces.masked`, an observation row begins with the mask: one column for each of the
    policy's outputs, 1 where the choice is allowed and 0 where it is not.
    """

    time_limit: int = 0
    """steps after which an episode is cut off (truncated); 0 for never"""
    terminates: bool = True
    """False where `step` never reports a termination, which saves the reset"""
    costly_reset: bool = False
    """True where a reset costs about as much as a step or more. Each environment then gets one new
    start state in each rollout, instead of one in each episode."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What run folders call it; an env string such as 'jax:criss-cross' where it has one."""

    @property
    @abstractmethod
    def spaces(self) -> Spaces:
        """Sizes of the flat observation and action rows."""

    @abstractmethod
    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """A start state and its observation [D]."""

    @abstractmethod
    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        """One step from a row of actions [A]: int32 choices counted from 0, or numbers, which lie
        within the bounds unless `action_bounds="raw"` passes on the policy's raw actions."""


def is_native(env: str) -> bool:
    """Whether an env string names an environment that runs inside the compiled program."""
    prefix, colon, _ = env.partition(":")
    return bool(colon) and prefix in NATIVE_MAKERS


def native_env(env: object) -> Environment | None:
    """An `Environment` as it is, or made from its env string; None for anything else."""
    if isinstance(env, Environment):
        return env
    if not isinstance(env, str) or not is_native(env):
        return None
    env_id, args = split_env(env)
    prefix, _, name = env_id.partition(":")
    # Imported here, since each adapter imports a package that most users do not have.
    module, function = NATIVE_MAKERS[prefix]
    made = getattr(import_module(module), function)(name, args)
    assert isinstance(made, Environment)
    return made


BLOCK = 2**15
"""States in which a policy acts at a time: not all networks' layers at once."""


class ExactEnvironment(Environment):
    """A JAX-native environment whose states and action rows are those of an exact model."""

    num_queues: int = 0
    """queues of a network, each of which holds up to `size` customers in `exact(size)`"""
    buffer: int = 0
    """the only `size` of a network whose queues are limited"""

    def box(self, size: int = 0) -> int:
        """The largest queue length of `exact(size)`; 0 if there are no queues."""
        if size:
            raise InputError(
                f"size={size} is for queueing networks; '{self.name}' is finite without it"
            )
        return 0

    @abstractmethod
    def exact(self, size: int = 0) -> MDP:
        """The exact model; `size` is for unlimited queues alone."""

    @abstractmethod
    def states(self, size: int = 0) -> NDArray[np.int32]:
        """[S, ...] the states, in the order of `exact(size)`."""

    @abstractmethod
    def observation(self, state: Any) -> jax.Array:
        """[D] float32"""

    def choices(self, policy: Callable[[Any], jax.Array], size: int = 0) -> NDArray[Any]:
        """[S, columns] the action rows of a policy, a function of a state."""
        each = partial(jax.lax.map, policy, batch_size=BLOCK)
        return np.asarray(jax.jit(each)(self.states(size)))

    def exact_policy(self, policy: Callable[[Any], jax.Array], size: int = 0) -> NDArray[np.intp]:
        """[S] the actions in `exact(size)` of a policy of states."""
        rows = self.choices(policy, size)
        return np.asarray(np.ravel_multi_index(tuple(rows.T), self.spaces.categories))


STORABLE = {np.dtype(t) for t in (bool, np.float16, np.float32, np.float64)} | {
    np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""What checkpoints can store."""


def require_sound(env: Environment) -> tuple[str, ...]:
    """Names of the costs that a step gives.

    Raises InputError if the protocol is broken, EnvironmentFailure if a method raises.
    """
    try:
        hash(env)
    except TypeError:
        raise InputError(
            f"environment '{env.name}' is not hashable; make it @dataclass(frozen=True)"
        ) from None
    spaces = env.spaces
    kind = jnp.int32 if spaces.categories else jnp.float32
    action = jax.ShapeDtypeStruct((spaces.action_size,), kind)
    key = jax.eval_shape(lambda: jax.random.key(0))
    state, obs = _traced(env, "reset", env.reset, key)
    after = _traced(env, "step", env.step, key, state, action)
    if not isinstance(after, Step):
        raise InputError(f"step of '{env.name}' returns {type(after).__name__}; return a Step")
    row = (spaces.observation_size,)
    for what, found, shape in (
        ("reset's observation", obs, row),
        ("step's obs", after.obs, row),
        ("step's reward", after.reward, ()),
        ("step's terminated", after.terminated, ()),
        *((f"step's cost '{name}'", cost, ()) for name, cost in dict(after.costs).items()),
    ):
        if np.shape(found) != shape:
            raise InputError(
                f"{what} of '{env.name}' has shape {np.shape(found)}; it must have {shape}"
            )
    _require_same_state(env, state, after.state)
    return tuple(dict(after.costs))


def _traced(env: Environment, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Shapes of what the method returns. Its own errors become EnvironmentFailure."""
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise EnvironmentFailure(
            f"{what} of '{env.name}' fails: {type(error).__name__}: {reason}"
        ) from error


def _require_same_state(env: Environment, before: Any, after: Any) -> None:
    """Steps follow each other, so a step's state must be of the kind that a reset's is."""
    kept, structure = jax.tree.flatten(before)
    found, after_structure = jax.tree.flatten(after)
    if str(structure) != str(after_structure):
        raise InputError(
            f"a step of '{env.name}' changes its state's structure from {structure} to"
            f" {after_structure}; return the same"
        )
    for leaf, later in zip(kept, found, strict=True):
        if (leaf.shape, leaf.dtype) != (later.shape, later.dtype):
            raise InputError(
                f"a step of '{env.name}' changes a part of its state from {leaf.dtype}{leaf.shape}"
                f" to {later.dtype}{later.shape}; return the same"
            )
        if leaf.dtype not in STORABLE:
            raise InputError(
                f"the state of '{env.name}' holds {leaf.dtype}, which checkpoints cannot; keep"
                " numbers of ordinary types (each step is given a key of its own)"
            )
