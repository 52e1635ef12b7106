"""Options that are changed when an agent is loaded: fine-tuning of what it has learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from longrun.base.errors import InputError
from longrun.learning.learn import learner
from longrun.learning.learn.trace import shortest_trace
from longrun.learning.learn.types import CriterionState
from longrun.learning.options.acting import ACTING
from longrun.learning.options.config import Config
from longrun.learning.options.config_options import saved_config, with_implied
from longrun.learning.train.events import Snapshot
from longrun.learning.train.open_run import Loop

FIXED = (
    *(name for name in ACTING if name != "action_bounds"),
    "value_hidden_sizes",
    "value_network",
    "initial_log_std",
    "limits",
)
"""Options that say what the networks compute or how they start, which is part of what was saved. Of
limits it is the names; their rates may change."""


def changed_at_load(
    loop: Loop,
    config: Config,
    snapshot: Snapshot,
    options: Mapping[str, Any],
    seed: int,
    other_env: bool,
) -> tuple[Config, Snapshot]:
    """Configuration and snapshot with some options changed.

    Iterations are counted in those of the new size, rounded down. Episodes, and what is kept for
    each environment, start anew if the number of environments changes; episodes also in another
    environment. A reset cost that is changed starts there.
    """
    after = _changed_config(config, options)
    state, environments = snapshot
    init = jax.eval_shape(lambda: learner.init(after, loop.spaces, jax.random.key(0)))
    shape = init.criterion.reward_sum.shape

    def fitting(criterion: CriterionState) -> CriterionState:
        if criterion.reward_sum.shape == shape:
            return criterion
        return criterion._replace(reward_sum=jnp.zeros(shape, jnp.float32))

    criterion, limits = fitting(state.criterion), state.limits
    cost = getattr(after, "reset_cost", 0.0)
    if cost != getattr(config, "reset_cost", 0.0):
        criterion = criterion._replace(reset_cost=jnp.float32(cost))
    if limits is not None:
        limits = limits._replace(criteria=tuple(fitting(each) for each in limits.criteria))
    steps = int(state.iteration) * config.steps_per_iteration
    trace = state.trace or shortest_trace(after)  # values that were learned need no long one
    state = state._replace(
        criterion=criterion,
        limits=limits,
        iteration=jnp.int32(steps // after.steps_per_iteration),
        trace=trace if after.adapts_lambda else None,
    )
    if other_env or after.num_envs != config.num_envs:
        environments = loop.fresh_snapshot(after, seed).environments
    return after, Snapshot(state, environments)


def _changed_config(config: Config, options: Mapping[str, Any]) -> Config:
    """The configuration with some options changed. Raises InputError for those that are fixed.

    They imply others, as in a new agent.
    """
    changed = saved_config(config.algorithm, vars(config) | with_implied(vars(config), options))
    for name in options:
        before, after = getattr(config, name), getattr(changed, name)
        # Other rates are other goals; what is learned depends on the names alone.
        same = [n for n, _ in before] == [n for n, _ in after] if name == "limits" else False
        if name in FIXED and before != after and not same:
            raise InputError(
                f"{name}={after!r} cannot be changed at load: what was saved has {name}={before!r}"
            )
    return changed
