"""Bounds on a policy's improvement: the paper's propositions and theorem, and earlier bounds.

All bounds have one form. With L the surrogate, epsilon the largest mean advantage and
E TV the mean total variation distance of the policies,

    L - 2 epsilon xi E TV  <=  eta' - eta  <=  L + 2 epsilon xi E TV,

and differ in the constant xi, which limits how far a change of the policy can move the
(discounted) stationary law: TV(d', d) <= xi E TV.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from longrun.exact.tabular.chain import ergodicity_coefficient
from longrun.exact.tabular.evaluation import Evaluation, evaluate
from longrun.exact.tabular.mdp import MDP, Array

CERTIFICATES = ("theorem", "achiam", "zhang_ross", "dai_gluzman")
"""Names of the bounds that hold for any new policy and can be computed before it is tried."""


def achiam_xi(discount: float) -> float:
    """gamma / (1 - gamma) (Achiam et al. 2017): infinite for gamma = 1."""
    return discount / (1 - discount) if discount < 1 else math.inf


def zhang_ross_xi(kemeny: float, discount: float) -> float:
    """kappa' - 1 (Zhang and Ross 2021): for the average criterion only."""
    return kemeny - 1 if discount == 1 else math.inf


def xi(kemeny: float, discount: float) -> float:
    """xi_gamma = min(gamma / (1 - gamma), |gamma (kappa' - 1) / (1 - (1 - gamma) kappa')|)."""
    denominator = abs(1 - (1 - discount) * kemeny)
    by_kemeny = discount * (kemeny - 1) / denominator if denominator else math.inf
    return min(achiam_xi(discount), by_kemeny)


def dai_gluzman_xi(new: Evaluation) -> float:
    """gamma tau_1(D'), tau_1 the ergodicity coefficient (Dai and Gluzman 2021, Refined bounds).

    It needs the matrix D' and is not computed for large models.
    """
    return new.discount * ergodicity_coefficient(new.deviation) if new.is_dense else math.inf


def worst_discount(kemeny: float) -> float:
    """argmax of xi_gamma over gamma (Remark 2): 1 - 1 / (2 kappa' - 1)."""
    return 1 - 1 / (2 * kemeny - 1)


def largest_xi(kemeny: float) -> float:
    """max of xi_gamma over gamma (Remark 2): 2 (kappa' - 1)."""
    return 2 * (kemeny - 1)


@dataclass(frozen=True)
class Bound:
    """One author's constant and the resulting bounds; infinite where they do not apply."""

    xi: float
    lower: float
    """Lower bound of `difference`."""
    upper: float
    """Upper bound of `difference`."""


@dataclass(frozen=True)
class ImprovementBounds:
    """Comparison of an old and a new policy, in the paper's order."""

    difference: float
    """eta'_gamma - eta_gamma."""
    formula: float
    """E over d'_gamma and pi' of A_gamma: the performance difference formula, equal to it."""
    surrogate: float
    """L = E over d_gamma and pi' of A_gamma."""
    epsilon: float
    """max over s of |E over pi' of A_gamma(s, a)|."""
    policy_distance: float
    """E over d_gamma of TV(pi', pi)."""
    law_distance: float
    """TV(d'_gamma, d_gamma)."""
    by_law: Bound
    """Proposition 1: with the distance of the laws itself in place of xi E TV."""
    theorem: Bound
    """Propositions 1 and 2 together: the paper's theorem."""
    achiam: Bound
    """Achiam et al. (2017), for discounts below 1."""
    zhang_ross: Bound
    """Zhang and Ross (2021), for discount 1."""
    dai_gluzman: Bound
    """Dai and Gluzman (2021), the narrowest."""

    @property
    def xi(self) -> float:
        return self.theorem.xi

    @property
    def lower(self) -> float:
        return self.theorem.lower

    @property
    def upper(self) -> float:
        return self.theorem.upper

    @property
    def bounds(self) -> dict[str, Bound]:
        """The bounds that need no sample of the new policy's law, by author."""
        return {name: getattr(self, name) for name in CERTIFICATES}

    @property
    def tightest(self) -> str:
        """The author of the smallest constant."""
        return min(self.bounds, key=lambda name: self.bounds[name].xi)


def improvement_bounds(
    mdp: MDP,
    old: ArrayLike,
    new: ArrayLike,
    discount: float = 1.0,
    initial: ArrayLike | None = None,
) -> ImprovementBounds:
    """The actual improvement from `old` to `new`, its surrogate, and every bound on it.

    For large models kappa' is an estimate, and the upper end of its error bar is used.
    """
    before = evaluate(mdp, old, discount, initial)
    after = evaluate(mdp, new, discount, initial)
    return compare(before, after)


def compare(before: Evaluation, after: Evaluation) -> ImprovementBounds:
    """`improvement_bounds` of two evaluations of one model."""
    advantage = mean_advantage(before, after.policy)
    surrogate = float(before.discounted_stationary @ advantage)
    epsilon = float(np.abs(advantage).max())
    shift = np.abs(after.policy - before.policy).sum(1) / 2
    policy_distance = float(before.discounted_stationary @ shift)
    laws = after.discounted_stationary - before.discounted_stationary
    law_distance = float(np.abs(laws).sum() / 2)
    kemeny = after.kemeny + after.kemeny_error
    discount = before.discount

    def bound(constant: float, distance: float = policy_distance) -> Bound:
        reach = 2 * epsilon * constant * distance if epsilon and distance else 0.0
        return Bound(constant, surrogate - reach, surrogate + reach)

    return ImprovementBounds(
        difference=after.discounted_gain - before.discounted_gain,
        formula=float(after.discounted_stationary @ advantage),
        surrogate=surrogate,
        epsilon=epsilon,
        policy_distance=policy_distance,
        law_distance=law_distance,
        by_law=bound(1.0, law_distance),
        theorem=bound(xi(kemeny, discount)),
        achiam=bound(achiam_xi(discount)),
        zhang_ross=bound(zhang_ross_xi(kemeny, discount)),
        dai_gluzman=bound(dai_gluzman_xi(after)),
    )


def mean_advantage(before: Evaluation, policy: Array) -> Array:
    """[S] E over pi' of A(s, a) = r' - r + gamma (P' - P) V."""
    usable = np.where(before.mdp.available, before.advantage, 0)
    return np.asarray(np.einsum("sa,sa->s", policy, usable))
