"""Data types of the learner."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from longrun.learning.learn.moments import Moments

Facts = Any


class Rollout(NamedTuple):
    """Facts of one replica's iteration: T steps of N environments, nothing derived from them.

    NumPy arrays as the environments wrote them; JAX arrays inside the update.
    """

    obs: Facts
    """[T, N, D]"""
    action: Facts
    """[T, N, A], unclipped, as sampled from the policy"""
    reward: Facts
    """[T, N]"""
    next_obs: Facts
    """[T, N, D], the true successor, before any reset"""
    terminated: Facts
    """[T, N]"""
    truncated: Facts
    """[T, N]"""
    resume_obs: Facts
    """[N, D], the observation after the rollout (after a reset if an episode ended there)"""
    costs: Facts = None
    """[T, N, K] in the order of the configuration's `costs`; None where it has none"""


class Policy(NamedTuple):
    """Parameters of a policy; `log_std` is [A], or [0] for categorical policies."""

    layers: Any
    """`Layers` of a perceptron; the parameters of a user's network"""
    log_std: jax.Array


class Networks(NamedTuple):
    """One item for each of the two networks: parameters, optimiser states."""

    policy: Any
    value: Any


class CriterionState(NamedTuple):
    """What a criterion learns besides the networks; all scalars but the last two."""

    gain: jax.Array
    """eta: running mean of the reward, net of reset costs"""
    offset: jax.Array
    """b: running mean of the predicted values"""
    reset_cost: jax.Array
    """adapted or not"""
    started: jax.Array
    """False until the first batch, whose means start the running means"""
    reward_sums: Moments
    """moments of the decayed reward sums, for reward scaling"""
    reward_sum: jax.Array
    """[N] current decayed sum of each environment; [0] without reward scaling"""


class TraceState(NamedTuple):
    """What is known about the length of traces; all scalars."""

    gae_lambda: jax.Array
    shared: jax.Array
    """sum over compared batches of the product of both halves' gradients"""
    own: jax.Array
    """sum of their mean squares"""
    undecided: jax.Array
    """iterations until lambda is chosen, the one that chooses it included; 0 afterwards"""


class TrainState(NamedTuple):
    """All that a replica has learnt: the contents of a checkpoint."""

    params: Networks
    opt_state: Networks
    criterion: CriterionState
    obs_moments: Moments
    iteration: jax.Array
    limits: Any = None
    """`longrun.learning.learn.limits.LimitState`; None without limits"""
    trace: TraceState | None = None
    """None where lambda is fixed"""


class CostBatch(NamedTuple):
    """What a policy step under K limits needs besides the reward's advantages."""

    advantage: jax.Array
    """[T * N, K] in the costs' own units, of mean 0"""
    excess: jax.Array
    """[K] how far the batch's rates are above their limits"""
    reward_unit: jax.Array
    """[] the reward, in the environment's own units, that an advantage of 1 corresponds to"""


class Batch(NamedTuple):
    """What both network updates train on, flattened over time and environments: [T * N, ...]."""

    features: jax.Array
    mask: jax.Array
    action: jax.Array
    advantage: jax.Array
    value_target: jax.Array
    costs: CostBatch | None = None
    """what policy steps that keep limits themselves need of the costs"""


Metrics = dict[str, jax.Array]
