"""Every identity and every bound of the paper's theory, on random models made to be difficult.

python benchmarks/tabular_identities.py --models 10000 --seed 0

Each model gets two policies and is looked at for gamma = 1 and for one gamma < 1. The error of an
identity is |left - right|, its largest entry, divided by the largest of the terms that are added up
on either side; more than 1e-8 is a violation. A bound small <= large is violated where
small - large is more than 1e-8 of the terms. Nothing is left out: a model whose policy has two
recurrent classes has no gain, and is drawn again.

Writes benchmarks/results/tabular-identities.csv, a row an identity or bound, and
tabular-tightness.csv, a row for each of the first models, with what each bound says.
"""

import argparse
import csv
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from longrun.exact.tabular import bounds
from longrun.exact.tabular.evaluation import Evaluation, evaluate
from longrun.exact.tabular.mdp import MDP, Array
from longrun.exact.tabular.structure import chain_structure

RESULTS = Path(__file__).parent / "results"
TOLERANCE = 1e-8
FINE = 1e-12
"""Violations of bounds beyond this are counted too."""
COLUMNS = ("name", "kind", "checked", "worst", "where", "beyond 1e-08", "beyond 1e-12")
SMALL, STIFF = 6, 1e6
"""States up to which a model is also worked out in exact rational arithmetic: 6, or 12 where
Kemeny's constant is more than a million."""
TIGHT = 2000
"""Rows of the table of tightness."""


# --- models ----------------------------------------------------------------------------------


def log_uniform(rng: Generator, low: float, high: float = 0.0) -> float:
    return float(10 ** rng.uniform(low, high))


def garnet(rng: Generator, states: int, actions: int) -> Array:
    """A few successors each, one of them in a third of the models."""
    branching = int(rng.integers(1, min(states, 6) + 1))
    result = np.zeros((states, actions, states))
    for s, a in np.ndindex(states, actions):
        result[s, a, rng.permutation(states)[:branching]] = rng.dirichlet(np.ones(branching))
    return result


def dense(rng: Generator, states: int, actions: int) -> Array:
    """Dirichlet rows; with concentration 0.05 their smallest entries are some 1e-100."""
    concentration = rng.choice([0.05, 0.3, 1.0, 10.0])
    return rng.dirichlet(np.full(states, concentration), (states, actions))


def decomposable(rng: Generator, states: int, actions: int) -> Array:
    """Blocks that are left with a probability down to 1e-7."""
    block = rng.integers(min(states, int(rng.integers(2, 5))), size=states)
    inside = block[:, None, None] == block[None, None, :]
    weights = rng.random((states, actions, states)) * inside
    weights /= weights.sum(2, keepdims=True)
    leaving = log_uniform(rng, -7) * rng.random((states, actions, 1))
    outside = rng.dirichlet(np.ones(states), (states, actions))
    return np.asarray((1 - leaving) * weights + leaving * outside)


def periodic(rng: Generator, states: int, actions: int) -> Array:
    """A cycle of groups of states, kept to with probability 1 - eps, eps down to 1e-6."""
    group = np.arange(states) % int(rng.integers(2, states + 1))
    follows = group[None, None, :] == (group[:, None, None] + 1) % (group.max() + 1)
    weights = rng.random((states, actions, states)) * follows
    weights /= weights.sum(2, keepdims=True)
    slip = log_uniform(rng, -6) * rng.random((states, actions, 1))
    return np.asarray(
        (1 - slip) * weights + slip * rng.dirichlet(np.ones(states), (states, actions))
    )


def transient(rng: Generator, states: int, actions: int) -> Array:
    """Some states are left for ever, after 1e6 steps or so if that is how it falls."""
    kept = int(rng.integers(1, states))
    result = rng.dirichlet(np.full(states, 0.3), (states, actions))
    result[:kept, :, kept:] = 0
    result[:kept, :, 0] += 1e-3
    leaving = log_uniform(rng, -6) * rng.uniform(0.5, 1, (states - kept, actions, 1))
    result[kept:, :, :kept] *= leaving
    result[kept:, :, kept:] += 1e-12
    result[kept:, :, :kept] += 1e-12
    return np.asarray(result / result.sum(2, keepdims=True))


KINDS = {
    "garnet": garnet,
    "dense": dense,
    "nearly decomposable": decomposable,
    "nearly periodic": periodic,
    "transient": transient,
}


def random_rewards(rng: Generator, size: tuple[int, int]) -> Array:
    scale = log_uniform(rng, -6, 6)
    shape = rng.integers(4)
    if shape == 0:  # one entry pays
        return np.asarray(scale * (np.arange(size[0] * size[1]) == 0).reshape(size))
    if shape == 1:  # far from 0
        return np.asarray(scale * (1000 + rng.normal(size=size)))
    if shape == 2:  # of very different sizes
        return np.asarray(scale * rng.normal(size=size) * 10 ** rng.uniform(-6, 0, size))
    return np.asarray(scale * rng.normal(size=size))


def random_policy(rng: Generator, available: Array, old: Array | None) -> Array:
    """Anything, nearly deterministic, deterministic, or close to the old policy."""
    states = len(available)
    anything = (
        rng.dirichlet(np.full(available.shape[1], 0.5), states) * available + 1e-3 * available
    )
    anything /= anything.sum(1, keepdims=True)
    shape = rng.integers(4)
    best = np.argmax(rng.random(available.shape) * available, 1)
    chosen = np.zeros(available.shape)
    chosen[np.arange(states), best] = 1
    if shape == 0:
        return np.asarray(anything)
    if shape == 1:
        return np.asarray((1 - 1e-9) * chosen + 1e-9 * anything)
    if shape == 2 or old is None:
        return chosen
    step = log_uniform(rng, -9)
    return np.asarray((1 - step) * old + step * (chosen if rng.random() < 0.5 else anything))


def random_discount(rng: Generator) -> float:
    shape = rng.integers(4)
    if shape == 0:
        return float(rng.random())
    if shape == 1:
        return 1 - 1e-6
    return float(rng.choice([0.0, 0.5, 0.9, 0.99])) if shape == 2 else 1 - log_uniform(rng, -10)


@dataclass(frozen=True)
class Model:
    kind: str
    mdp: MDP
    old: Array
    new: Array
    discount: float


def random_model(rng: Generator) -> Model:
    """A model both of whose policies have one recurrent class each."""
    while True:
        kind = str(rng.choice(list(KINDS)))
        states, actions = int(rng.integers(2, 51)), int(rng.integers(1, 7))
        if rng.random() < 0.3:
            states = int(rng.integers(2, SMALL + 1))
        transitions = KINDS[kind](rng, states, actions)
        available = np.ones((states, actions), bool)
        if rng.random() < 0.2:
            available = rng.random((states, actions)) < 0.6
            available[np.arange(states), rng.integers(actions, size=states)] = True
        initial = rng.dirichlet(np.ones(states)) if rng.random() < 0.5 else np.eye(states)[0]
        rewards = random_rewards(rng, (states, actions))
        mdp = MDP(transitions * available[..., None], rewards, available=available, initial=initial)
        old = random_policy(rng, available, None)
        new = old if rng.random() < 0.02 else random_policy(rng, available, old)
        if all(chain_structure(mdp.chain(policy)[0]).unichain for policy in (old, new)):
            return Model(kind, mdp, old, new, random_discount(rng))


# --- the ledger ------------------------------------------------------------------------------


def largest(*terms: Array | float) -> float:
    return max(float(np.max(np.abs(term), initial=0)) for term in terms)


def term(*factors: Array | float) -> float:
    """The largest of the numbers that a product of arrays adds up."""
    reach = np.abs(np.asarray(factors[0]))
    for factor in map(np.asarray, factors[1:]):
        reach = reach.max(0) if reach.ndim == 2 else reach
        reach = (
            (np.abs(factor).T * reach).T if factor.ndim and reach.ndim else reach * np.abs(factor)
        )
        reach = reach.max(0) if reach.ndim else reach
    return float(np.max(reach))


@dataclass
class Entry:
    kind: str
    checked: int = 0
    worst: float = 0.0
    where: str = ""
    coarse: int = 0
    fine: int = 0


@dataclass
class Ledger:
    entries: dict[str, Entry] = field(default_factory=dict)
    where: str = ""

    def equal(self, name: str, left: Array | float, right: Array | float, *terms: float) -> None:
        """left = right, both of them sums of `terms`."""
        scale = max([largest(left, right), *terms])
        self._count(name, "identity", largest(np.subtract(left, right)) / (scale or 1.0))

    def at_most(self, name: str, small: float, large: float, *terms: float) -> None:
        """small <= large; a bound that is infinite says nothing."""
        if math.isinf(large):
            return
        scale = max([abs(small), abs(large), *terms])
        self._count(name, "bound", max(0.0, small - large) / (scale or 1.0))

    def _count(self, name: str, kind: str, error: float) -> None:
        entry = self.entries.setdefault(name, Entry(kind))
        entry.checked += 1
        entry.coarse += not error <= TOLERANCE
        entry.fine += not error <= FINE
        if not error <= entry.worst or not entry.where:
            entry.worst, entry.where = error, self.where

    def rows(self) -> Iterator[dict[str, object]]:
        for name, entry in self.entries.items():
            worst = f"{entry.worst:.1e}"
            values = (name, entry.kind, entry.checked, worst, entry.where, entry.coarse, entry.fine)
            yield dict(zip(COLUMNS, values, strict=True))


# --- what the paper says of one policy -------------------------------------------------------


def check_policy(book: Ledger, at: Evaluation) -> None:
    """Section 2, Appendix A.1 and Proposition 3."""
    P, r, d, gamma = at.transition, at.rewards, at.stationary, at.discount
    eta, V, Q, A = at.gain, at.bias, at.q, at.advantage
    Z, D, start, law = at.fundamental, at.deviation, at.initial, at.discounted_stationary
    one = np.ones(len(d))
    eye, ed = np.eye(len(d)), np.tile(d, (len(d), 1))
    book.equal("d e = 1", d.sum(), 1.0)
    book.equal("d P = d", d @ P, d, term(d, P))
    book.equal("eta = d r", eta, d @ r, term(d, r))
    values = largest(V, r, eta)
    book.equal("Poisson: (I - g P) V = r - eta e", V - gamma * P @ V, r - eta, values)
    system = eye - gamma * P + gamma * ed
    book.equal("Poisson: (I - g P + g e d)(V + eta e) = r", system @ (V + eta), r, values)
    book.equal("Proposition 3: d V = 0", float(d @ V), 0.0, term(d, V))
    book.equal("V = (Z - e d) r", V, (Z - d) @ r, term(Z, r), term(ed, r))

    mask = at.mdp.available
    kernel = at.mdp.kernel.reshape(at.mdp.num_actions, len(d), len(d))
    ahead = at.mdp.rewards - eta + gamma * np.einsum("asj,j->sa", kernel, V)
    book.equal("Q = r - eta + g P V", Q[mask], ahead[mask], values)
    book.equal("A = Q - V", A[mask], (Q - V[:, None])[mask], largest(Q[mask], V))
    usable_q, usable_a = np.where(mask, Q, 0), np.where(mask, A, 0)
    book.equal(
        "V = E Q", V, np.einsum("sa,sa->s", at.policy, usable_q), largest(at.policy * usable_q)
    )
    scale = max(values, largest(at.policy * usable_q))
    book.equal("E A = 0", np.einsum("sa,sa->s", at.policy, usable_a), 0 * d, scale)

    book.equal("Z e = e", Z @ one, one, largest(Z))
    book.equal("d Z = d", d @ Z, d, term(d, Z))
    right = eye - gamma * ed
    book.equal("Z (I - g P) = I - g e d", Z @ (eye - gamma * P), right, largest(Z))
    book.equal("(I - g P) Z = I - g e d", Z - gamma * P @ Z, right, largest(Z))
    book.equal("Z (I - g P + g e d) = I", Z @ system, eye, largest(Z))
    book.equal("D = Z - e d", D, Z - d, largest(Z))
    book.equal("D (I - g P) = I - e d", D @ (eye - gamma * P), eye - ed, largest(D))

    ends = (1 - gamma) * start
    if gamma < 1:
        balance = law - gamma * law @ P
        book.equal("d_g (I - g P) = (1 - g) d_0", balance, ends, largest(law))
        book.equal("d_g e = 1", law.sum(), 1.0)
        book.equal("eta_g = d_g r", at.discounted_gain, law @ r, term(law, r))
        whole = float(np.linalg.norm(D + ed / (1 - gamma), np.inf))
        book.at_most("|(I - g P)^-1| <= 1 / (1 - g)", whole, 1 / (1 - gamma))
    book.equal("d_g = d + (1 - g) d_0 D", law, d + ends @ D, largest(law), term(ends, D))
    gain = eta + float(ends @ V)
    book.equal("eta_g = eta + (1 - g) d_0 V", at.discounted_gain, gain, term(law, r), term(ends, V))


def check_limits(book: Ledger, at: Evaluation, limit: Evaluation) -> None:
    """How far the discounted matrices are from their limits, exactly."""
    gap, P = 1 - at.discount, at.transition
    step = gap * at.deviation
    V, D = limit.bias, limit.deviation
    change = max(term(step, P, D), largest(at.deviation, D))
    book.equal("D_g - D = -(1 - g) D_g P D", at.deviation - D, -step @ (P @ D), change)
    change = max(term(step, P, V), largest(at.bias, V))
    book.equal("V_g - V = -(1 - g) D_g P V", at.bias - V, -step @ (P @ V), change)


def check_passage(book: Ledger, at: Evaluation) -> None:
    """Mean first passage times, Kemeny's constant, Lemmas A1 and A2: every state is recurrent."""
    P, d, gamma, Z = at.transition, at.stationary, at.discount, at.fundamental
    M, kappa = at.first_passage, at.kemeny
    size = len(d)
    eye = np.eye(size)
    scaled = M * d  # M D^-1
    times = P @ (M - np.diag(np.diag(M))) + 1
    book.equal("M = P (M - M_dg) + E, each entry", times / M, np.ones_like(M))
    book.equal("M_dg = D", np.diag(M) * d, np.ones(size))
    book.equal("M d = kappa e", scaled.sum(1), np.full(size, kappa), largest(scaled))
    book.at_most("M >= E", 1.0, M.min())
    if gamma == 1:
        book.equal("M = (I - Z + E Z_dg) D", scaled, eye - Z + np.diag(Z), largest(Z))
    norm = float(np.linalg.norm(eye - scaled, np.inf))
    book.equal("|I - M D^-1| = kappa - 1", norm, kappa - 1, kappa)
    name = "kappa < 1e6" if kappa < STIFF else "kappa > 1e6 (*)"
    book.equal(f"kappa = 1 + sum 1 / (1 - lambda), {name}", kappa, spectral_kemeny(P))

    left = scaled - eye - gamma * P @ (scaled - eye)
    right = gamma * d + (1 - gamma) * scaled - eye
    book.equal("A.2: (I - g P)(M - D) = g E + (1 - g) M - D", left, right, largest(scaled))
    mixed = np.einsum("ij,ji->i", Z, scaled)
    numerator = eye - scaled + np.diag(Z) - (1 - gamma) * mixed
    denominator = eye - (1 - gamma) * scaled
    scale = max(largest(Z, scaled, mixed * (1 - gamma)), term(Z, scaled) * (1 - gamma))
    book.equal("Lemma A2, multiplied out", Z @ denominator, numerator, scale)
    if (1 - gamma) * kappa < 1:
        inverse = np.asarray(np.linalg.inv(denominator), float)
        norm = float(np.linalg.norm(inverse, np.inf))
        book.at_most("Lemma A1: |(I - (1 - g) M D^-1)^-1|", norm, 1 / (1 - (1 - gamma) * kappa))
        scale = max(term(numerator, inverse), largest(Z, scaled, mixed * (1 - gamma)))
        book.equal("Lemma A2", Z, numerator @ inverse, scale)


def spectral_kemeny(transition: Array) -> float:
    """1 + sum of 1 / (1 - lambda), by LAPACK.

    (*) Its eigenvalues are off by some 1e-16, and therefore the sum by some 1e-16 kappa, relative
    to it: this says nothing of a slow chain to 1e-8. `check_exact` shows which side is wrong.
    """
    rates = np.linalg.eigvals(transition)
    rates = np.delete(rates, np.argmin(np.abs(rates - 1)))
    return float(1 + np.sum(1 / (1 - rates)).real)


# --- what it says of two ---------------------------------------------------------------------


def check_pair(book: Ledger, old: Evaluation, new: Evaluation) -> bounds.ImprovementBounds:
    """Sections 3.1 and 3.2, Lemma A3, the propositions and the theorem."""
    found = bounds.compare(old, new)
    gamma, V, law, law_ = (
        old.discount,
        old.bias,
        old.discounted_stationary,
        new.discounted_stationary,
    )
    shift = new.transition - old.transition
    gain = new.rewards - old.rewards + gamma * shift @ V
    values = largest(V, old.rewards, new.rewards)
    advantage = bounds.mean_advantage(old, new.policy)
    book.equal("E' A = r' - r + g (P' - P) V", advantage, gain, values)
    results = max(term(law_, new.rewards), term(law, old.rewards), term(law_, old.rewards))
    results = max(
        results, gamma * max(term(law_, new.transition, V), term(law_, old.transition, V))
    )
    book.equal("performance difference formula", found.difference, law_ @ gain, results)
    # Measured by the advantages, which may be far smaller than the values that they come from.
    plain = max(term(law_, new.rewards), term(law, old.rewards), term(law_, advantage))
    book.equal("difference = E' A (Lemma 1)", found.difference, found.formula, plain)
    sampled = max(term(law, new.rewards), term(law, old.rewards))
    sampled = max(sampled, gamma * max(term(law, new.transition, V), term(law, old.transition, V)))
    book.equal("L = d_g (r' - r + g (P' - P) V)", found.surrogate, law @ gain, sampled)
    if ((old.policy > 0) | (new.policy == 0)).all():
        ratio = np.divide(new.policy, old.policy, where=old.policy > 0, out=0 * old.policy)
        weighted = old.policy * ratio * np.where(old.mdp.available, old.advantage, 0)
        terms = largest(law[:, None] * weighted)
        book.equal("L, importance sampled", found.surrogate, float(law @ weighted.sum(1)), terms)
    rest = (law_ - law) @ advantage
    plain = max(plain, term(law, advantage))
    book.equal("difference - L = (d' - d) E' A", found.difference - found.surrogate, rest, plain)

    Z, P = new.fundamental, shift
    moved = gamma * law @ P @ Z
    scale = gamma * max(term(law, new.transition, Z), term(law, old.transition, Z))
    book.equal("Lemma A3", law_ - law, moved, largest(law, law_), scale)
    if gamma < 1:
        whole = new.deviation + new.stationary / (1 - gamma)
        terms = gamma * max(term(law, new.transition, whole), term(law, old.transition, whole))
        moved = gamma * law @ P @ whole
        book.equal("Lemma A3 by (I - g P')^-1", law_ - law, moved, largest(law, law_), terms)
    if new.structure.irreducible and (1 - gamma) * new.kemeny < 1:
        scaled = new.first_passage * new.stationary
        eye = np.eye(len(law))
        inverse = np.asarray(np.linalg.inv(eye - (1 - gamma) * scaled), float)
        moved = gamma * law @ P @ (eye - scaled) @ inverse
        terms = max(
            term(law, new.transition, scaled, inverse), term(law, old.transition, scaled, inverse)
        )
        book.equal("Proposition 2: d' - d by M'", law_ - law, moved, largest(law, law_), terms)

    check_bounds(book, found, old, new, plain)
    return found


def check_bounds(
    book: Ledger,
    found: bounds.ImprovementBounds,
    old: Evaluation,
    new: Evaluation,
    scale: float,
) -> None:
    gamma, law, kappa = old.discount, old.discounted_stationary, new.kemeny
    moved = float(np.abs(law @ (new.transition - old.transition)).sum())
    book.at_most("|d_g (P' - P)|_1 <= 2 E TV", moved, 2 * found.policy_distance, largest(law))
    named = {"Proposition 1": found.by_law, "theorem": found.theorem, "Achiam": found.achiam}
    named |= {"Zhang-Ross": found.zhang_ross, "Dai-Gluzman": found.dai_gluzman}
    for name, bound in named.items():
        if math.isfinite(bound.xi):
            book.at_most(f"{name}: lower", bound.lower, found.difference, scale)
            book.at_most(f"{name}: upper", found.difference, bound.upper, scale)
        if name != "Proposition 1":
            reach = bound.xi * found.policy_distance if found.policy_distance else 0.0
            book.at_most(f"{name}: TV(d', d) <= xi E TV", found.law_distance, reach, largest(law))
    book.at_most("xi of Dai-Gluzman <= the theorem's", found.dai_gluzman.xi, found.xi)
    book.at_most("the theorem's xi <= Achiam's", found.xi, found.achiam.xi)
    book.at_most("xi <= 2 (kappa' - 1)", found.xi, bounds.largest_xi(kappa))
    if gamma == 1:
        book.equal("Remark 1: xi = kappa' - 1 for g = 1", found.xi, kappa - 1, kappa)
        near = bounds.xi(kappa, 1 - 1e-3 / kappa)
        book.at_most("Remark 1: xi -> kappa' - 1", abs(near / (kappa - 1) - 1), 2e-3)
        # In rational arithmetic: 1 - 1 / (2 kappa - 1) as a double misses the peak of a slow chain.
        top = bounds.largest_xi(kappa)
        exact: Any = Fraction(kappa)
        peak = float(bounds.xi(exact, bounds.worst_discount(exact)))
        book.equal("Remark 2: xi at its worst g = 2 (kappa' - 1)", peak, top)
        grid = np.concatenate([np.linspace(0, 1, 20), 1 - 10.0 ** -np.arange(1, 12)])
        book.at_most("Remark 2: it is the maximum", max(bounds.xi(kappa, g) for g in grid), top)
    if ((old.policy > 0) | (new.policy == 0)).all():
        ratio = np.divide(
            new.policy, old.policy, where=new.policy > 0, out=np.ones_like(old.policy)
        )
        divergence = (new.policy * np.log(ratio)).sum(1)
        distance = np.abs(new.policy - old.policy).sum(1) / 2
        excess = distance**2 - np.maximum(divergence, 0) / 2
        book.at_most("section 2.3: TV^2 <= KL / 2", float(excess.max()), 0.0, 1.0)


# --- exact arithmetic ------------------------------------------------------------------------


def exact_inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    size = len(matrix)
    rows = [row + [Fraction(i == j) for j in range(size)] for i, row in enumerate(matrix)]
    for p in range(size):
        swap = next(i for i in range(p, size) if rows[i][p])
        rows[p], rows[swap] = rows[swap], rows[p]
        rows[p] = [x / rows[p][p] for x in rows[p]]
        for i in range(size):
            if i != p and rows[i][p]:
                factor = rows[i][p]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[p], strict=True)]
    return [row[size:] for row in rows]


def check_exact(book: Ledger, at: Evaluation) -> None:
    """Against rational arithmetic. What is on the diagonal of P is what its row leaves over."""
    size = len(at.stationary)
    P = [[Fraction(float(x)) for x in row] for row in at.transition]
    for i in range(size):
        P[i][i] += 1 - sum(P[i])
    gamma, r = Fraction(at.discount), [Fraction(float(x)) for x in at.rewards]
    states = range(size)
    whole = [[(i == j) - P[i][j] for j in states] for i in states]
    last = [[*row[:-1], Fraction(1)] for row in whole]
    d = exact_inverse(last)[-1]  # d (I - P) = 0 with d e = 1 for the last equation
    system = [[(i == j) - gamma * (P[i][j] - d[j]) for j in states] for i in states]
    Z = exact_inverse(system)
    D = [[Z[i][j] - d[j] for j in states] for i in states]
    V = [sum(D[i][j] * r[j] for j in states) for i in states]

    recurrent = at.structure.recurrent[0]
    ratio = np.array([float(at.stationary[s] / d[s]) for s in recurrent])
    book.equal("exact d, each entry", ratio, np.ones(len(recurrent)))
    book.equal("exact D", at.deviation, np.array(D, float))
    largest_term = max(float(abs(D[i][j] * r[j])) for i in states for j in states)
    book.equal("exact V", at.bias, np.array(V, float), largest_term)
    book.equal(
        "exact gain",
        at.gain,
        float(sum(a * b for a, b in zip(d, r, strict=True))),
        term(at.stationary, at.rewards),
    )
    if at.discount == 1:
        kappa = float(sum(Z[i][i] for i in states))
        name = "" if kappa < STIFF else ", kappa > 1e6"
        book.equal(f"exact kappa{name}", at.kemeny, kappa)
        if at.structure.irreducible:
            times = [[((i == j) - Z[i][j] + Z[j][j]) / d[j] for j in states] for i in states]
            ratio = np.array(
                [[float(at.first_passage[i, j] / times[i][j]) for j in states] for i in states]
            )
            book.equal("exact M, each entry", ratio, np.ones_like(ratio))
        if kappa > STIFF:
            book.equal("exact kappa against eigenvalues (*)", spectral_kemeny(at.transition), kappa)


# --- the run ---------------------------------------------------------------------------------


def check_model(book: Ledger, model: Model) -> list[list[object]]:
    """All of it; rows for the table of tightness."""
    limits = [evaluate(model.mdp, policy) for policy in (model.old, model.new)]
    nearby = [evaluate(model.mdp, policy, model.discount) for policy in (model.old, model.new)]
    rows: list[list[object]] = []
    for old, new in (limits, nearby):
        for at in (old, new):
            check_policy(book, at)
            if at.structure.irreducible:
                check_passage(book, at)
            if model.mdp.num_states <= (SMALL if at.kemeny < STIFF else 2 * SMALL):
                check_exact(book, at)
        found = check_pair(book, old, new)
        said = [found.by_law, *found.bounds.values()]
        numbers = [
            found.difference,
            found.surrogate,
            *(x for b in said for x in (b.lower, b.upper)),
        ]
        span = float(np.ptp(model.mdp.rewards[model.mdp.available])) or 1.0
        short = [f"{x / span:.3g}" if math.isfinite(x) else "" for x in numbers]
        head = [model.kind, model.mdp.num_states, f"{old.discount:.10g}", f"{new.kemeny:.3g}"]
        rows.append(head + short)
    for at, limit in zip(nearby, limits, strict=True):
        check_limits(book, at, limit)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one model, by its number; nothing is written")
    given = parser.parse_args()
    book, began = Ledger(), time.perf_counter()
    tight: list[list[object]] = []
    indices = range(given.models) if given.only is None else [given.only]
    for index in indices:
        model = random_model(np.random.default_rng([given.seed, index]))
        book.where = f"model {index} ({model.kind})"
        rows = check_model(book, model)
        if len(tight) < TIGHT:
            tight.append(rows[index % 2])
        if (index + 1) % 100 == 0:
            spent = time.perf_counter() - began
            print(f"\r{index + 1} models, {spent:.0f} s", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    rows_ = list(book.rows())
    width = max(len(str(row["name"])) for row in rows_)
    for row in rows_:
        print(f"{row['name']:<{width}}", *(f"{row[c]!s:>8}" for c in COLUMNS[1:]))
    failed = sum(entry.coarse for name, entry in book.entries.items() if "(*)" not in name)
    print(f"{len(rows_)} identities and bounds, {failed} violations beyond {TOLERANCE}")
    print("(*) limited by LAPACK's eigenvalues, to 1e-16 kappa: not counted")
    if given.only is None:
        write(
            RESULTS / "tabular-identities.csv", list(COLUMNS), [list(row.values()) for row in rows_]
        )
        authors = ["by_law", "theorem", "achiam", "zhang_ross", "dai_gluzman"]
        limits = [f"{author} {end}" for author in authors for end in ("lower", "upper")]
        head = ["kind", "states", "discount", "kappa", "difference", "surrogate", *limits]
        write(RESULTS / "tabular-tightness.csv", head, tight)
    return failed > 0


def write(path: Path, head: list[str], rows: list[list[object]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


if __name__ == "__main__":
    raise SystemExit(main())
