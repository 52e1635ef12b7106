"""Environments with Brax's interface: 'brax:ant?backend=spring', 'playground:CheetahRun?impl=warp'.

Arguments are those of a class of Brax, and `time_limit`; or entries of the configuration of an
environment of MuJoCo Playground, nested ones with dots, whose `episode_length` is the time limit.
0 is none. Playground's physics runs in JAX unless `impl=warp` asks for Warp, its own default, which
is a package of its own and needs an NVIDIA GPU.

Much of their states is computed again in each step before it is read: of 2861 numbers in the state
of Brax's half-cheetah under MJX, a step reads 123. Only these are carried from step to step.
"""

from __future__ import annotations

import contextlib
import inspect
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import partial_eval

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.learning.envs.env_strings import join_env
from longrun.learning.envs.factories import mujoco_warning
from longrun.learning.envs.native.adapters import Adapted, env_id, import_package, time_limit
from longrun.learning.envs.native.protocol import Environment, Step
from longrun.learning.envs.spaces import Spaces

BACKENDS = ("generalized", "mjx", "positional", "spring")
EVERY_ENVIRONMENT = {"backend": "", "n_frames": 1, "debug": False, "time_limit": 1000}
"""Defaults; Brax's own training cuts episodes off after as many steps."""
ANY_KEY = 0
"""Seed of the keys used to find shapes, which do not depend on it."""


def make_brax(name: str, args: dict[str, Any]) -> Environment:
    """An environment of Brax."""
    envs = import_package("brax.envs", f"brax:{name}", "brax")
    classes = envs._envs  # Brax has no public list of its environments
    brax_id = env_id("brax", name, classes)
    defaults = EVERY_ENVIRONMENT | _defaults(classes[name])
    limit = time_limit(brax_id, args, defaults, "time_limit")
    if "backend" in args:
        known(f"backend of '{brax_id}'", args["backend"], BACKENDS)
    own = {key: value for key, value in args.items() if key != "time_limit"}
    _warn_in_python(brax_id, "brax")
    with warnings.catch_warnings():
        # Each environment warns that Brax's physics is not maintained, which its users know.
        warnings.filterwarnings("ignore", "Brax System, piplines and environments", UserWarning)
        env = envs.get_environment(name, **own)
    return _adapted(join_env(brax_id, args), env, limit)


def _defaults(env_class: Any) -> dict[str, Any]:
    """The constructor's own arguments and their defaults."""
    parameters = inspect.signature(env_class.__init__).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    own = (each for each in parameters if each.kind in kinds and each.name != "self")
    return {each.name: None if each.default is each.empty else each.default for each in own}


def make_playground(name: str, args: dict[str, Any]) -> Environment:
    """An environment of MuJoCo Playground."""
    registry = import_package("mujoco_playground", f"playground:{name}", "playground").registry
    own_id = env_id("playground", name, registry.ALL_ENVS)
    config = registry.get_default_config(name)
    defaults = _flat(config.to_dict())
    defaults.pop("action_repeat", None)  # only Playground's wrappers read it, not used here
    limit = time_limit(own_id, args, defaults, "episode_length")
    _warn_in_python(own_id, "playground")
    physics = {"impl": "jax"} if "impl" in config else {}
    try:
        env = registry.load(name, config_overrides=physics | args)
    except (OSError, subprocess.CalledProcessError) as error:
        # Robots' models are not part of the package, which fetches them with git on first use.
        raise InputError(f"environment '{own_id}' could not load its model: {error}") from None
    return _adapted(join_env(own_id, args), env, limit)


def _flat(config: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Entries of a nested configuration by their dotted names."""
    entries: dict[str, Any] = {}
    for key, value in config.items():
        inner = _flat(value, f"{above}{key}.") if isinstance(value, dict) else {}
        entries |= inner or {f"{above}{key}": value}
    return entries


def _warn_in_python(env: str, extra: str) -> None:
    """Let MuJoCo not write its warnings to a file in the working directory."""
    import_package("mujoco", env, extra).set_mju_user_warning(mujoco_warning)


def _adapted(name: str, env: Any, limit: int) -> Environment:
    """An environment of this name, without wrappers: no episode counter, no auto-reset, no vmap."""
    with _quiet():
        layout = jax.eval_shape(lambda: _without_rng(env.reset(jax.random.key(ANY_KEY))))
    # Both libraries scale actions from this range to their actuators' own.
    low, high = ((bound,) * env.action_size for bound in (-1.0, 1.0))
    sizes = Spaces(_observation(name, layout.obs).size, env.action_size, low=low, high=high)
    carried, terminates = _what_a_step_reads(env, layout)
    return BraxLikeEnvironment(name, env, sizes, limit, layout, carried, terminates)


@dataclass(frozen=True)
class BraxLikeEnvironment(Adapted):
    """The state is a tuple of those leaves of the library's state that a step reads."""

    layout: Any = field(compare=False, repr=False)
    """the library's whole state, as shapes and dtypes"""
    carried: tuple[int, ...] = field(compare=False, repr=False)
    """indices of the leaves that are carried"""
    terminates: bool = field(compare=False)
    costly_reset = True

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        with _quiet():
            whole = self.env.reset(key)
        return self._carried(_without_rng(whole)), self._row(whole)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        with _quiet():
            after = self.env.step(_with_rng(self._whole(state), key), action)
        terminated = after.done > 0.5 if self.terminates else False
        obs, reward = self._row(after), jnp.asarray(after.reward, jnp.float32)
        if self.terminates:
            # Playground ends an episode when its physics breaks down, with NaNs for what follows.
            # The value of a terminal state is 0, but 0 times NaN would reach every weight.
            obs, reward = (jnp.where(terminated, jnp.nan_to_num(x), x) for x in (obs, reward))
        return Step(self._carried(_without_rng(after)), obs, reward, terminated)

    def _row(self, whole: Any) -> jax.Array:
        return jnp.asarray(_observation(self.env_name, whole.obs), jnp.float32).reshape(-1)

    def _carried(self, whole: Any) -> tuple[jax.Array, ...]:
        """Cast to the dtypes of a start state: those of a loop's carry must not change."""
        leaves, shapes = jax.tree.leaves(whole), jax.tree.leaves(self.layout)
        return tuple(jnp.asarray(leaves[i], shapes[i].dtype) for i in self.carried)

    def _whole(self, carried: tuple[jax.Array, ...]) -> Any:
        """The library's state; leaves that no step reads are zeros, which the compiler drops."""
        shapes, structure = jax.tree.flatten(self.layout)
        leaves = [jnp.zeros(shape.shape, shape.dtype) for shape in shapes]
        for i, leaf in zip(self.carried, carried, strict=True):
            leaves[i] = leaf
        return jax.tree.unflatten(structure, leaves)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide the warnings of MJX: while it is traced, Brax reads fields that have moved."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Accessing `.*` directly from `Data`", DeprecationWarning)
        yield


def _observation(env_name: str, obs: Any) -> Any:
    """The policy's observation; a mapping also holds entries for a critic only."""
    if not isinstance(obs, Mapping):
        return obs
    if "state" not in obs:
        raise InputError(
            f"environment '{env_name}' observes {', '.join(obs)}; only a flat 'state' is supported"
        )
    return obs["state"]


def _without_rng(whole: Any) -> Any:
    info = {name: value for name, value in whole.info.items() if name != "rng"}
    return whole.replace(info=info)


def _with_rng(whole: Any, key: jax.Array) -> Any:
    """The state as a step expects it: its generator is the step's own key, which is not carried,
    and `done` is 0. Dicts are new, since environments write into them."""
    return whole.replace(
        done=jnp.zeros_like(whole.done),
        info=whole.info | {"rng": key},
        metrics=dict(whole.metrics),
    )


def _what_a_step_reads(env: Any, layout: Any) -> tuple[tuple[int, ...], bool]:
    """Indices of the state's leaves that this or a later step's results depend on; and whether a
    step ever sets `done`."""
    shapes, structure = jax.tree.flatten(layout)
    sets_done = True

    def results(leaves: list[jax.Array], action: jax.Array) -> tuple[list[Any], Any]:
        nonlocal sets_done
        whole = jax.tree.unflatten(structure, leaves)
        before = _with_rng(whole, jax.random.key(ANY_KEY))
        after = env.step(before, action)
        sets_done = after.done is not before.done  # else the same object comes back
        found = jax.tree.leaves(_without_rng(after))
        if len(found) != len(leaves):
            raise InputError(f"a step of {env} changes its state's structure; it cannot be carried")
        return found, (after.obs, after.reward, after.done)

    action = jax.ShapeDtypeStruct((env.action_size,), jnp.float32)
    with _quiet():
        program = jax.make_jaxpr(results)(shapes, action).jaxpr
    others = len(program.outvars) - len(shapes)
    needed = [False] * len(shapes)
    while True:  # what a needed leaf is computed from is needed too
        _, used = partial_eval.dce_jaxpr(program, [*needed, *([True] * others)])
        more = [was or now for was, now in zip(needed, used[: len(shapes)], strict=True)]
        if more == needed:
            return tuple(i for i, is_needed in enumerate(needed) if is_needed), sets_done
        needed = more
