"""All quantities of one policy in the paper, with the same names for gamma = 1 and gamma < 1.

Small models are solved by dense linear algebra, exactly up to rounding. Large sparse ones are
solved iteratively; quantities that would need an inverse there raise an error.
"""

from __future__ import annotations

from functools import cached_property
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from longrun.base.errors import InputError
from longrun.exact.tabular import chain
from longrun.exact.tabular.chain import DENSE
from longrun.exact.tabular.mdp import MDP, Array, Matrix, require_mdp
from longrun.exact.tabular.poisson import SparseChain, trace_of_deviation
from longrun.exact.tabular.precision import EPS, check_precision, longest_row, rounding
from longrun.exact.tabular.room import EVALUATED, require_room_beside
from longrun.exact.tabular.structure import ChainStructure, chain_structure
from longrun.exact.tabular.validation import state_law

TOLERANCE = 1e-11
"""Largest residual of an iterative solution of the Poisson equation, relative to the rewards: far
below what matters, and above the rounding error for values up to 1e4 times the rewards."""


def evaluate(
    mdp: MDP, policy: ArrayLike, discount: float = 1.0, initial: ArrayLike | None = None
) -> Evaluation:
    """Evaluate a policy, [S, A] probabilities or [S] actions, averaged or discounted.

    initial: [S] the law d_0 of the first state (default: the model's); used for discount < 1.
    """
    require_mdp("evaluate", mdp)
    if not isinstance(discount, Real) or not 0 <= discount <= 1:
        raise InputError(f"discount={discount!r} is outside [0, 1]; 1 is the average criterion")
    require_room_beside(mdp, EVALUATED, "to be evaluated")
    start = mdp.initial if initial is None else state_law(initial, mdp.num_states)
    return Evaluation(mdp, mdp.distribution(policy), float(discount), start)


class Evaluation:
    """The evaluation of one policy; every quantity is computed when first accessed.

    P is the chain [S, S] of the policy and r its mean reward [S]; d, eta, V, Q, A, Z, M and kappa
    are the paper's symbols.
    """

    def __init__(self, mdp: MDP, policy: Array, discount: float, initial: Array) -> None:
        self.mdp, self.policy, self.discount, self.initial = mdp, policy, discount, initial
        self.transition: Matrix
        self.transition, self.rewards = mdp.chain(policy)
        self.is_dense = mdp.num_states <= DENSE
        if self.is_dense:
            self.transition = chain.dense(self.transition)
        self.structure: ChainStructure = chain_structure(self.transition)
        self.structure.require_unichain("the policy's chain")

    @property
    def stationary(self) -> Array:
        """d [S]: the long-run fraction of time in each state."""
        return self._law[0]

    @property
    def stationary_error(self) -> float:
        """Error of `stationary`, summed over all states: a bound for large chains.

        For small ones an estimate: elimination without subtraction leaves a relative error of a few
        rounding errors per state, for any chain (O'Cinneide 1993).
        """
        return self._law[1]

    @cached_property
    def _law(self) -> tuple[Array, float]:
        """The law and its error; transient states have probability 0 and are left out."""
        recurrent = self.structure.recurrent[0]
        result = np.zeros(self.mdp.num_states)
        part, start = self.transition[recurrent][:, recurrent], self.initial[recurrent]
        if len(recurrent) <= DENSE:
            result[recurrent], error = chain.stationary(chain.dense(part)), EPS * len(recurrent)
        else:
            large = self._average_chain if self.structure.irreducible else SparseChain(part)
            result[recurrent], error = large.stationary(start if start.any() else start + 1)
        check_precision("the stationary law", error)
        return result, error

    @cached_property
    def gain(self) -> float:
        """eta = d r: the long-run average reward."""
        if self.is_dense:
            return float(self.stationary @ self.rewards)
        return self._average_chain.gain(self.rewards, self._relative_values)

    @cached_property
    def gain_error(self) -> float:
        """Bound on the error of `gain`: the true one is between min and max of r - (I - P) h."""
        values = self._relative_values
        residual = self.rewards - values + self.transition @ values
        off = max(residual.max() - self.gain, self.gain - residual.min())
        return float(off) + self._rounding(values, self.rewards)

    @cached_property
    def bias(self) -> Array:
        """V [S] = E sum gamma^t (r_t - eta), the values as the paper redefines them; d V = 0."""
        if self.is_dense:
            values = self._deviate(self.deviation, self.discount)
            return np.asarray(values - self.stationary @ values)
        values = self._relative_values
        if self.discount < 1:
            # From the average criterion, so that a discount close to 1 needs a small correction.
            values = self._solve(self._chain, self.rewards - self.gain, values)
        # d V is the gain of a chain that pays V: certified, and more exact than by d itself.
        mean = self._average_chain.gain(values, self._solve(self._average_chain, values))
        return np.asarray(values - mean)

    @cached_property
    def q(self) -> Array:
        """Q [S, A] = r - eta + gamma P_a V; minus infinity where an action is not available."""
        return np.asarray(self.mdp.lookahead(self.bias, self.discount) - self.gain)

    @cached_property
    def advantage(self) -> Array:
        """A [S, A] = Q - V; minus infinity where an action is not available.

        Summed as r - eta - (1 - gamma) V(s) + gamma E (V(s') - V(s)): the values of a slow chain
        are so large that the advantage would be lost to rounding in Q - V.
        """
        values, discount = self.bias, self.discount
        rest = self.mdp.rewards - self.gain - (1 - discount) * values[:, None]
        return np.asarray(rest + discount * _mean_rise(self.mdp, values))

    @cached_property
    def discounted_stationary(self) -> Array:
        """d_gamma [S] = (1 - gamma) d_0 (I - gamma P)^-1; d itself for gamma = 1."""
        if self.discount == 1:
            return self.stationary
        if self.is_dense:
            return chain.discounted_stationary(self.transition, self.initial, self.discount)
        times = self._average_chain.times(self.stationary)
        law, error = self._chain.discounted_stationary(self.stationary, self.initial, times)
        check_precision("the discounted law", error)
        return law

    @cached_property
    def discounted_gain(self) -> float:
        """eta_gamma = d_gamma r: the normalised discounted return; eta itself for gamma = 1."""
        return self.gain if self.discount == 1 else float(self.discounted_stationary @ self.rewards)

    @cached_property
    def fundamental(self) -> Array:
        """Z [S, S] = (I - gamma P + gamma e d)^-1."""
        self._require_dense("fundamental matrix")
        return self.deviation + self.stationary

    @cached_property
    def deviation(self) -> Array:
        """D [S, S] = Z - e d; the group inverse of I - P for gamma = 1."""
        self._require_dense("deviation matrix")
        return chain.deviation(self.transition, self.stationary, self.discount)

    @cached_property
    def first_passage(self) -> Array:
        """M [S, S]: mean steps until s' is entered from s (independent of the discount)."""
        self._require_dense("matrix of mean first passage times")
        self.structure.require_irreducible("mean first passage times")
        return chain.first_passage(self.transition, self.stationary)

    @property
    def kemeny(self) -> float:
        """kappa: mean steps from any state to one drawn from d (independent of the discount).

        It is trace Z: the sum of d(s') M(s, s') over s' where all states can be reached from each
        other, and the limit of that sum where some are transient. Estimated for large chains: see
        `kemeny_error`.
        """
        return self._kemeny[0]

    @property
    def kemeny_error(self) -> float:
        """Half-width of a 95 % interval of `kemeny`; 0 where it is exact."""
        return self._kemeny[1]

    @cached_property
    def _kemeny(self) -> tuple[float, float]:
        if self.is_dense:
            return chain.kemeny(self._average_deviation), 0.0
        trace, error = trace_of_deviation(self._average_chain, self.stationary)
        return 1 + trace, error

    @cached_property
    def _average_deviation(self) -> Array:
        if self.discount == 1:
            return self.deviation
        return chain.deviation(self.transition, self.stationary)

    def _deviate(self, deviation: Array, discount: float) -> Array:
        """D (r - eta), with one step of iterative refinement.

        The residual is summed over differences of values: in a chain that is slow enough, an error
        of 1e-16 in the sum of a row of P would matter.
        """
        values = deviation @ (self.rewards - self.gain)
        falls = np.einsum("ij,ij->i", self.transition, values[:, None] - values)
        residual = self.rewards - self.gain - (1 - discount) * values - discount * falls
        return np.asarray(values + deviation @ residual)

    @cached_property
    def _relative_values(self) -> Array:
        """h [S] with (I - P) h = r - eta, up to a constant."""
        if self.is_dense:
            return self._deviate(self._average_deviation, 1.0)
        return self._solve(self._average_chain, self.rewards)

    def _solve(self, equations: SparseChain, rewards: Array, guess: Array | None = None) -> Array:
        scale = float(np.abs(rewards).max()) or 1.0
        values, reached = equations.solve(rewards, guess, TOLERANCE * scale)
        if not reached:
            spread = float(np.ptp(rewards - equations.matrix @ values))
            error = spread / 2 + self._rounding(values, rewards)
            check_precision("the solution of the chain's equations", error, scale)
        return values

    def _rounding(self, values: Array, rewards: Array) -> float:
        """Rounding error of r - h + P h [S]: a row's terms, four operations, and 1 - gamma p."""
        size = float(np.abs(values).max() + np.abs(rewards).max())
        return rounding(longest_row(self.transition) + 8, size)

    @cached_property
    def _chain(self) -> SparseChain:
        return SparseChain(self.transition, self.discount)

    @cached_property
    def _average_chain(self) -> SparseChain:
        return self._chain if self.discount == 1 else SparseChain(self.transition)

    def _require_dense(self, what: str) -> None:
        if not self.is_dense:
            raise InputError(
                f"the {what} of {self.mdp.num_states:,} states is not formed (the limit is "
                f"{DENSE:,}); gain, bias, stationary law and kemeny need no inverse"
            )


def _mean_rise(mdp: MDP, values: Array) -> Array:
    """[S, A] E (V(s') - V(s)); 0 where an action is not available."""
    states, count = mdp.num_states, mdp.num_actions
    if not mdp.is_sparse:
        blocks = mdp.kernel.reshape(count, states, states)
        return np.asarray(np.einsum("asj,sj->sa", blocks, values - values[:, None]))
    kernel = mdp.kernel
    origins = np.repeat(np.tile(values, count), np.diff(kernel.indptr))
    rises = kernel.data * (values[kernel.indices] - origins)
    sums = sparse.csr_array((rises, kernel.indices, kernel.indptr), kernel.shape).sum(1)
    return np.asarray(sums.reshape(count, states).T)
