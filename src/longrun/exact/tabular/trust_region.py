"""Exact trust-region policy iteration: every step is certified by a bound before it is taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.exact.tabular.bounds import CERTIFICATES, ImprovementBounds, compare
from longrun.exact.tabular.evaluation import Evaluation, evaluate
from longrun.exact.tabular.mdp import MDP, Array
from longrun.exact.tabular.solvers.solution import reward_scale
from longrun.exact.tabular.structure import chain_structure

SMALLEST = 1e-12
"""Lower limit on steps: smaller ones would promise less than 1e-12 of the advantages, and a
mean advantage is a sum over actions that is known to about 1e-15 of them."""


@dataclass(frozen=True)
class CertifiedStep:
    """One improvement: the step size towards the greedy policy, and its bounds."""

    size: float
    bounds: ImprovementBounds
    gain: float
    """eta_gamma after the step."""


@dataclass(frozen=True)
class TrustRegionPath:
    """A sequence of policies, each certified to be better than the one before."""

    policy: Array
    """[S, A] the last policy."""
    gain: float
    """eta_gamma of the last policy."""
    gap: float
    """No policy's eta_gamma is above `gain + gap`: the largest advantage."""
    steps: list[CertifiedStep]
    certificate: str
    converged: bool
    """Whether `gap` is within the tolerance; otherwise max_steps or rounding ended the loop."""


def trust_region_policy_iteration(
    mdp: MDP,
    policy: ArrayLike | None = None,
    discount: float = 1.0,
    initial: ArrayLike | None = None,
    *,
    certificate: str = "theorem",
    tolerance: float = 1e-6,
    max_steps: int = 1000,
) -> TrustRegionPath:
    """Step towards the greedy policy while the certificate's lower bound grows; repeat.

    pi' = (1 - a) pi + a greedy has surrogate a L, and a penalty that grows with a^2: for small a
    the lower bound is positive, so that every step is a proven improvement, until no action has an
    advantage above `tolerance` (relative to the rewards), or after `max_steps`.

    policy: the starting point (default: uniform over the available actions).
    """
    known("certificate", certificate, CERTIFICATES)
    if {"achiam": discount == 1, "zhang_ross": discount < 1}.get(certificate):
        raise InputError(
            f"certificate='{certificate}' says nothing for discount={discount}; take 'theorem'"
        )
    if policy is None:
        policy = mdp.uniform_policy
    now = evaluate(mdp, policy, discount, initial)
    enough = tolerance * (float(np.abs(now.rewards).max()) or reward_scale(mdp) or 1.0)
    steps: list[CertifiedStep] = []
    while now.advantage.max() > enough and len(steps) < max_steps:
        first = min(1.0, 4 * steps[-1].size) if steps else 1.0
        found = _best_step(now, certificate, first)
        if found is None:
            break  # the guaranteed improvement is below rounding
        size, bounds, now = found
        steps.append(CertifiedStep(size, bounds, now.discounted_gain))
    gap = max(float(now.advantage.max()), 0.0)
    return TrustRegionPath(
        now.policy, now.discounted_gain, gap, steps, certificate, converged=gap <= enough
    )


def _best_step(
    now: Evaluation, certificate: str, size: float
) -> tuple[float, ImprovementBounds, Evaluation] | None:
    """Halve the step until the certificate stops growing; None if it is never positive."""
    greedy = now.mdp.distribution(now.advantage.argmax(1))
    best = None
    while size > SMALLEST:
        policy = (1 - size) * now.policy + size * greedy
        if size == 1 and not chain_structure(now.mdp.chain(policy)[0]).unichain:
            size /= 2  # a mixture with the old policy has one recurrent class, as before
            continue
        after = evaluate(now.mdp, policy, now.discount, now.initial)
        bounds = compare(now, after)
        lower = bounds.bounds[certificate].lower
        if best is not None and lower < best[0]:
            break
        if lower > 0:
            best = (lower, size, bounds, after)
        size /= 2
    return None if best is None else best[1:]
