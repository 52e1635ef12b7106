"""Limits on costs while learning.

Each limited cost is treated as the reward is: it has a gain, a head of the value network and its
own Average Value Constraint. There are two ways to keep the limits:

- multipliers, adapted by a PI controller (Stooke, Achiam and Abbeel 2020; plain dual ascent
  without the proportional part): the policy is improved by the advantages of the reward less those
  of the costs at their prices (`combined`);
- a policy step that keeps the limits itself, such as the trust region's, which gets the advantages
  of each cost (`cost_batch`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from longrun.learning.learn.config_pytree import with_values
from longrun.learning.learn.criteria import (
    Targets,
    Values,
    allowed_rate,
    criterion_of,
    init_criterion,
    value_unit,
)
from longrun.learning.learn.types import CostBatch, CriterionState, Metrics, Rollout
from longrun.learning.options.config import Average, Clipped, Config, TrustRegion

PROPORTIONAL = 20.0
"""The controller's proportional part, in units of its integral's step size. It damps the
oscillations of plain dual ascent."""
HIGHEST = 100.0
"""Largest multiplier: the reward counts for a hundredth of the direction then."""
AVERAGED = 0.1
"""Weight of a batch in moving averages: about ten batches count."""
MANY_EVENTS = 1000.0
"""A batch whose limit allows as many counts by itself: an average would only lag behind it."""


class Controller(NamedTuple):
    """The multipliers of K limits, and what their controller remembers; [K] each."""

    multiplier: jax.Array
    """the multipliers, in units of the spreads of the reward's and the cost's advantages"""
    integral: jax.Array
    spread: jax.Array
    """[1 + K] moving averages of the standard deviations of the reward's and costs' advantages"""


class LimitState(NamedTuple):
    """What is learned about K limits."""

    criteria: tuple[CriterionState, ...]
    """K"""
    largest: jax.Array
    """[K] the largest absolute cost of a step so far"""
    excess: jax.Array
    """[K] the moving average of how far rates are above their limits"""
    controller: Controller | None
    """None where the policy step itself keeps the limits"""
    margin: jax.Array | None
    """[K] below its limit at which such a step holds a cost; None where there are multipliers"""


def init_limits(config: Config) -> LimitState | None:
    """None without limits, so that nothing is added to the state."""
    if not config.headed_limits:
        return None
    count = len(config.headed_limits)
    zeros = jnp.zeros
    criteria = tuple(init_criterion(config)._replace(reset_cost=zeros(())) for _ in range(count))
    if isinstance(config, TrustRegion):
        return LimitState(criteria, zeros(count), zeros(count), None, zeros(count))
    controller = Controller(zeros(count), zeros(count), zeros(1 + count))
    return LimitState(criteria, zeros(count), zeros(count), controller, None)


def of_cost(config: Config, rollout: Rollout, k: int) -> Rollout:
    """The rollout with the k-th limited cost in the place of the reward."""
    column = config.recorded.index(config.headed_limits[k][0])
    return rollout._replace(reward=rollout.costs[..., column])


def learn_limits(
    config: Config, state: LimitState, rollout: Rollout, heads: list[Values]
) -> LimitState:
    """Gains and multipliers from a batch; heads: of the K limited costs."""
    learn, own = criterion_of(config).learn, _without_reset_cost(config)
    streams = [of_cost(config, rollout, k) for k in range(len(heads))]
    criteria = tuple(
        learn(own, old, stream, values)
        for old, stream, values in zip(state.criteria, streams, heads, strict=True)
    )
    costs = jnp.stack([stream.reward for stream in streams])
    limits = jnp.stack([jnp.asarray(limit, jnp.float32) for _, limit in config.headed_limits])
    largest = jnp.maximum(state.largest, jnp.abs(costs).max((1, 2)))
    excess = costs.mean((1, 2)) - limits
    # The first batch that has a cost is its own average.
    before = jnp.where(state.largest > 0, state.excess, excess)
    allowed = allowed_rate(limits, largest, costs[0].size)
    unit = _unit(allowed, before, excess)
    after = before + _weight(allowed, largest, costs[0].size) * (excess - before)
    assert isinstance(config, Clipped | TrustRegion)
    speed = config.limit_step_size
    if state.controller is not None:
        controller = _controlled(speed, state.controller, excess / unit, after / unit)
        return LimitState(criteria, largest, after, controller, None)
    assert state.margin is not None
    margin = _margin(speed, state.margin, excess / unit, allowed)
    return LimitState(criteria, largest, after, None, margin)


def _without_reset_cost(config: Config) -> Config:
    """The options for a cost's own criterion: resets cost reward, and nothing else."""
    return with_values(config, reset_cost_step_size=0.0) if isinstance(config, Average) else config


def _weight(allowed: jax.Array, largest: jax.Array, samples: int) -> jax.Array:
    """[K] of a batch in the average excess, by the events of the `largest` cost that it may have.

    A controller whose proportional part lags by ten batches oscillates where costs follow the
    policy within a few.
    """
    events = allowed * samples / jnp.maximum(largest, 1e-12)
    return jnp.clip(events / MANY_EVENTS, AVERAGED, 1.0)


def _unit(allowed: jax.Array, average: jax.Array, excess: jax.Array) -> jax.Array:
    """[K] the unit of violations: what a limit allows, or the average excess where it is more.

    So violations are about 1 as long as costs are far above their limits, and their mean is 0 where
    the mean rate is the limit. If they were clipped at 1 instead, a rate would be held above its
    limit where some batches cost far more than others, as those in which episodes start. A single
    batch counts for 1 / AVERAGED at most.
    """
    return jnp.maximum(jnp.maximum(allowed, average), AVERAGED * jnp.abs(excess))


def _margin(
    step_size: jax.Array | float, old: jax.Array, violations: jax.Array, allowed: jax.Array
) -> jax.Array:
    """[K] margins after a batch; allowed: [K] rates that limits allow.

    A step lowers a cost by less than its batch predicts, since its direction was chosen on the same
    samples. Without a margin, costs would settle above their limits. The margin integrates the
    excess: with the share `step_size` that steps correct, a quarter of it is the fastest rate
    without oscillation. It is bounded by half of what is allowed, and never negative: while a cost
    is below a limit that does not bind, it would become a permission to exceed the limit later.
    """
    change = step_size / 4 * violations * allowed
    return jnp.clip(old + change, 0.0, allowed / 2)


def _controlled(
    step_size: jax.Array | float, old: Controller, violations: jax.Array, averages: jax.Array
) -> Controller:
    """One PI step of the multipliers; violations: [K] of a batch; averages: their moving averages.

    The proportional part follows the averages: of rare events most batches have none and some have
    several, which says little about the policy.
    """
    integral = jnp.clip(old.integral + step_size * violations, 0.0, HIGHEST)
    controlled = PROPORTIONAL * step_size * averages + integral
    return Controller(jnp.clip(controlled, 0.0, HIGHEST), integral, old.spread)


def with_spread(controller: Controller, advantages: list[jax.Array]) -> Controller:
    """Average the spreads of a batch in; advantages: [T, N] of the reward and the K costs.

    Of rare events most batches have none. In units of such a batch alone the errors of the value of
    their cost would be as large as an event.
    """
    found = jnp.stack([each.std() for each in advantages])
    moved = controller.spread + AVERAGED * (found - controller.spread)
    return controller._replace(spread=jnp.where(controller.spread > 0, moved, found))


def prices(controller: Controller) -> jax.Array:
    """[K] what a unit of each cost's advantage is worth in units of the reward's."""
    return controller.multiplier * controller.spread[0] / (controller.spread[1:] + 1e-8)


def combined(controller: Controller, reward: Targets, costs: list[Targets]) -> jax.Array:
    """[T, N] advantages less the costs' at their prices, rescaled."""
    price = prices(controller)
    total = reward.advantage - sum(price[k] * cost.advantage for k, cost in enumerate(costs))
    return total / (1 + controller.multiplier.sum())


def cost_batch(
    config: Config,
    rollout: Rollout,
    state: LimitState,
    costs: list[Targets],
    reward_unit: jax.Array | float,
) -> CostBatch:
    """Advantages for a policy step that keeps limits itself, and how far rates are above them."""
    assert state.margin is not None
    advantages, excess = [], []
    for k, (own, targets) in enumerate(zip(state.criteria, costs, strict=True)):
        centred = targets.advantage - targets.advantage.mean()
        advantages.append((centred * value_unit(own)).reshape(-1))
        excess.append(of_cost(config, rollout, k).reward.mean() - config.headed_limits[k][1])
    unit = jnp.asarray(reward_unit, jnp.float32)
    return CostBatch(jnp.stack(advantages, axis=-1), jnp.stack(excess) + state.margin, unit)


def limit_metrics(config: Config, state: LimitState, reward: CriterionState) -> Metrics:
    """Each multiplier in reward per unit of cost, and whether one has reached its bound."""
    assert state.controller is not None
    units = jnp.stack([value_unit(own) for own in state.criteria])
    price = prices(state.controller) * value_unit(reward) / units
    return multiplier_metrics(config, price) | {
        "recovering": (state.controller.multiplier >= HIGHEST).any().astype(jnp.float32)
    }


def multiplier_metrics(config: Config, price: jax.Array) -> Metrics:
    """multiplier_NAME for each limit; price: [K]."""
    return {f"multiplier_{name}": price[k] for k, (name, _) in enumerate(config.headed_limits)}
