"""APO and PPO as the code of the paper's authors has them (github.com/xtma/apo).

Two further algorithms, `apo-authors` and `ppo-authors`, for `longrun reproduce --as authors`. What
they do otherwise than the paper's text is listed in docs/decisions/001. They are added to the
learner from outside: each is a kind of configuration with entries in the learner's tables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from longrun.base.errors import InputError
from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn import config_pytree
from longrun.learning.learn.criteria import (
    CRITERIA,
    Criterion,
    Steps,
    Targets,
    Values,
    learn_scale,
    running_means,
    targets_of,
)
from longrun.learning.learn.learner import TRAININGS, Training, value_errors
from longrun.learning.learn.minibatches import OPTIMISER, Samples, Task, Trained, train_epochs
from longrun.learning.learn.networks import Layers, policy_sizes, split_keys, value_sizes
from longrun.learning.learn.policy_steps import clipped_loss, clipped_samples, clipped_terms
from longrun.learning.learn.types import (
    Batch,
    CriterionState,
    Metrics,
    Networks,
    Rollout,
    TrainState,
)
from longrun.learning.options.acting import MLP, Acting
from longrun.learning.options.config import APOConfig, Clipped, Config, PPOConfig
from longrun.learning.options.option_fields import option

USUAL = {
    "limits": (),
    "adaptive_lambda": False,
    "termination": "zero",
    "policy_network": MLP,
    "value_network": MLP,
}
"""Options that have no other value here."""


@dataclass(frozen=True, kw_only=True)
class Authors(Clipped):
    """What both algorithms share; a Gaussian policy's mean is passed through tanh."""

    @property
    def acting(self) -> Acting:
        return dataclasses.replace(super().acting, bounded_mean=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, usual in USUAL.items():
            value = getattr(self, name, usual)
            if value != usual:
                raise InputError(
                    f"{name}={value!r} is not in the authors' code, which has {usual!r}; set"
                    " preset='paper'"
                )


@dataclass(frozen=True, kw_only=True)
class AuthorsAPO(Authors, APOConfig):
    """APO as in the authors' code."""

    algorithm: ClassVar[str] = "apo-authors"
    value_discount: float = option(
        1.0,
        "discount of the differential value, besides the gain: r - gain + discount V(s') - V(s);"
        " 0.999 in their best settings of two tasks",
        high=1,
    )


@dataclass(frozen=True, kw_only=True)
class AuthorsPPO(Authors, PPOConfig):
    """PPO as in the authors' code."""

    algorithm: ClassVar[str] = "ppo-authors"


# --- initial weights: as PyTorch's Linear draws them, biases too -----------------------------


def draw(config: Config, spaces: Spaces, key: jax.Array) -> Networks:
    policy_key, value_key = split_keys(key, 2)
    return Networks(
        _drawn(policy_key, policy_sizes(config, spaces)),
        _drawn(value_key, value_sizes(config, spaces)),
    )


def _drawn(key: jax.Array, sizes: Sequence[int]) -> Layers:
    return tuple(map(_uniform, split_keys(key, len(sizes) - 1), sizes[:-1], sizes[1:]))


@partial(jax.jit, static_argnums=(1, 2))
def _uniform(key: jax.Array, n_in: int, n_out: int) -> tuple[jax.Array, jax.Array]:
    """Weights [in, out] and bias [out], uniform within 1 / sqrt(inputs)."""
    weights_key, bias_key = jax.random.split(key)
    reach = n_in**-0.5
    return (
        jax.random.uniform(weights_key, (n_in, n_out), jnp.float32, -reach, reach),
        jax.random.uniform(bias_key, (n_out,), jnp.float32, -reach, reach),
    )


# --- criteria: a time limit has the value 0, so that -V propagates to the steps before it ----


def _steps(rollout: Rollout, values: Values) -> Steps:
    ends = rollout.terminated | rollout.truncated
    return Steps(rollout.reward, jnp.where(ends, 0.0, values.successor), ends)


def _learn(
    config: AuthorsAPO | AuthorsPPO, state: CriterionState, rollout: Rollout, values: Values
) -> CriterionState:
    steps = _steps(rollout, values)
    if isinstance(config, AuthorsPPO):
        return learn_scale(state, steps, config.discount)
    state = running_means(state, steps.reward, values.here, config.gain_step_size)
    return learn_scale(state, steps, config.value_discount * config.gae_lambda)


def _targets(
    config: AuthorsAPO | AuthorsPPO, state: CriterionState, rollout: Rollout, values: Values
) -> Targets:
    if isinstance(config, AuthorsPPO):
        discount, constraint = config.discount, 0.0
    else:
        discount, constraint = config.value_discount, config.value_constraint
    steps = _steps(rollout, values)
    return targets_of(state, steps, values, discount, config.gae_lambda, constraint)


# --- training: one Adam, one norm, one loss; a sample at a time limit counts in neither part --


def _init_optimisers(config: Config, networks: Networks) -> Networks:
    """One state for both networks, in the policy's place."""
    return Networks(OPTIMISER.init(networks), ())


def train_jointly(
    config: Authors,
    spaces: Spaces,
    state: TrainState,
    rollout: Rollout,
    batch: Batch,
    shuffles: Networks,
    progress: jax.Array | float,
) -> tuple[Trained, Trained]:
    """Both networks by the sum of their losses, on the minibatches of the policy.

    Adam treats each weight separately, so this changes only the norm by which gradients are
    clipped, which is that of both networks together, and the order of the value's samples.
    """

    def loss(networks: Networks, samples: Samples) -> tuple[jax.Array, Metrics]:
        weights, value_target, *facts = samples
        terms = clipped_terms(config, spaces, networks.policy, tuple(facts))
        means = {name: weighted_mean(term, weights) for name, term in terms.items()}
        policy_loss, metrics = clipped_loss(config, means)
        errors = value_errors(config, networks.value, facts[0], value_target)
        value_loss = 0.5 * weighted_mean(errors, weights)
        return policy_loss + value_loss, metrics | {"value_loss": value_loss}

    cut_off = rollout.truncated & ~rollout.terminated
    weights = jnp.asarray(~cut_off, jnp.float32).reshape(-1)
    facts = clipped_samples(config, spaces, state.params.policy, batch)
    task = Task(
        loss,
        state.params,
        state.opt_state.policy,
        (weights, batch.value_target, *facts),
        shuffles.policy,
    )
    [trained] = train_epochs(config, [task], progress)
    return (
        Trained(trained.params.policy, trained.opt_state, trained.metrics),
        Trained(trained.params.value, (), {}),
    )


def weighted_mean(values: jax.Array, weights: jax.Array) -> jax.Array:
    """Mean of [n] over the samples whose weight [n] is not 0; 0 if there are none."""
    return jnp.sum(values * weights) / jnp.maximum(weights.sum(), 1.0)


CRITERIA[Authors] = Criterion(_learn, _targets)
TRAININGS[Authors] = Training(draw, _init_optimisers, train_jointly, is_apart=False)
for kind in (AuthorsAPO, AuthorsPPO):
    config_pytree.register(kind)
