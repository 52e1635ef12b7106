"""The options that the learner's programs read.

A program gets no others, so that it is compiled once for all configurations that agree in these:
training a policy does not depend on the criterion, and all the rest not on the policy step.
"""

from __future__ import annotations

from longrun.learning.learn.config_pytree import with_only
from longrun.learning.options.acting import ACTING
from longrun.learning.options.config import (
    ALGORITHMS,
    APOConfig,
    Average,
    Clipped,
    Config,
    PPOConfig,
    TRPOConfig,
)

INIT = (
    "hidden_sizes",
    "value_hidden_sizes",
    "policy_network",
    "value_network",
    "limits",
    "scale_rewards",
)
BATCH = (
    *ACTING,
    "value_network",
    "normalize_advantages",
    "scale_rewards",
    "termination",
    "limits",
    "costs",
)
ADAPTIVE = ("adaptive_lambda", "rollout_steps")
MINIBATCHES = (*ACTING, "minibatch_size", "learning_rate_decay")
POLICY = (*MINIBATCHES, "limits")
VALUE = (*MINIBATCHES, "value_network", "limits")
"""Options that the value update reads besides numeric ones."""


def options_of_init(config: Config) -> Config:
    """What a new replica depends on: `INIT`, and sizes of rollouts where its state has them."""
    if not _is_known(config):
        return config
    envs = ("num_envs",) if config.scale_rewards else ()
    return with_only(config, (*INIT, *envs, *(ADAPTIVE if config.adapts_lambda else ())))


def options_of_batch(config: Config) -> Config:
    """What values, gain, advantages and targets depend on.

    It is the same for both policy steps, unless there are limits, which each keeps in its own way.
    """
    if not _is_known(config):
        return config
    names = (*BATCH, *ADAPTIVE) if config.adapts_lambda else BATCH
    if config.limits:
        return with_only(config, names)
    return with_only(config, names, APOConfig if isinstance(config, Average) else PPOConfig)


def options_of_policy(config: Config) -> Config:
    """What a policy step depends on, the same for both criteria."""
    if not _is_known(config):
        return config
    return with_only(config, POLICY, PPOConfig if isinstance(config, Clipped) else TRPOConfig)


def options_of_value(config: Config) -> Config:
    """What fitting a value depends on, the same for all algorithms."""
    return with_only(config, VALUE, TRPOConfig) if _is_known(config) else config


def _is_known(config: Config) -> bool:
    """Other kinds of configurations than those of the library may read more."""
    return type(config) in ALGORITHMS.values()
