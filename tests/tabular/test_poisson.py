"""Equations of sparse chains against dense algebra, and products by blocks of rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_mdps import examples, seeds
from scipy import sparse

from longrun.base.errors import NoConvergence
from longrun.exact.tabular import chain, evaluation, krylov, poisson
from longrun.exact.tabular import sparse_products as products
from longrun.exact.tabular.poisson import LAW_TOLERANCE, Multigrid, SparseChain
from longrun.exact.tabular.precision import EPS, LOOSE, USELESS, rounding
from longrun.exact.tabular.sparse_products import RowBlocks
from longrun.exact.tabular.structure import chain_structure
from longrun.tabular import MDP, PrecisionWarning, evaluate

# --- chains ----------------------------------------------------------------------------------


def birth_death(states: int, up: float = 0.3, down: float = 0.4) -> Any:
    matrix = np.diag(np.full(states - 1, up), 1) + np.diag(np.full(states - 1, down), -1)
    return matrix + np.diag(1 - matrix.sum(1))


def few_successors(states: int, seed: int = 0) -> Any:
    """Four random successors each, and the next state, so that there is one class."""
    random = np.random.default_rng(seed)
    matrix = np.roll(np.eye(states), 1, axis=1)
    rows = np.repeat(np.arange(states), 4)
    np.add.at(matrix, (rows, random.integers(states, size=len(rows))), random.random(len(rows)))
    return matrix / matrix.sum(1, keepdims=True)


def nearly_decomposable(states: int, coupling: float) -> Any:
    half = states // 2
    apart = np.zeros((states, states))
    apart[:half, :half] = few_successors(half, 1)
    apart[half:, half:] = few_successors(states - half, 2)
    return (1 - coupling) * apart + coupling / states


def transient(states: int) -> Any:
    """A walk that ends at state 0, and a class of three states there."""
    matrix = birth_death(states)
    matrix[:3] = 0
    matrix[:3, :3] = [[0.5, 0.5, 0], [0, 0.5, 0.5], [1, 0, 0]]
    return matrix


def absorbing(states: int) -> Any:
    matrix = birth_death(states)
    matrix[0] = np.eye(1, states)
    return matrix


CHAINS = {
    "one state": np.ones((1, 1)),
    "two states": np.array([[0.0, 1.0], [1.0, 0.0]]),
    "birth and death": birth_death(60),
    "birth and death, merged": birth_death(800),
    "few successors": few_successors(50),
    "few successors, merged": few_successors(700),
    "nearly decomposable": nearly_decomposable(60, 1e-4),
    "nearly decomposable, merged": nearly_decomposable(700, 1e-4),
    "very nearly decomposable": nearly_decomposable(600, 1e-7),
    "cycle": np.roll(np.eye(30), 1, axis=1),
    "cycle, merged": np.roll(np.eye(700), 1, axis=1),
    "transient states": transient(40),
    "transient states, merged": transient(700),
    "absorbing state": absorbing(40),
    "absorbing state, merged": absorbing(700),
}
"""Those with more states than poisson.COARSEST have more than one level."""
discounts = pytest.mark.parametrize("discount", [1.0, 0.9999, 0.9, 0.0])


def rewards_of(matrix: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=len(matrix))


def residual(matrix: Any, discount: float, rewards: Any, values: Any) -> float:
    """The largest after centring: the mean is the gain, or the free constant of the values."""
    left = rewards - values + discount * matrix @ values
    return float(np.abs(left - left.mean()).max())


@pytest.fixture(scope="module", params=CHAINS.values(), ids=CHAINS)
def matrix(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def exact_law(matrix: Any) -> Any:
    return dense_law(matrix)


def dense_law(matrix: Any) -> Any:
    law = np.zeros(len(matrix))
    states = chain_structure(matrix).recurrent[0]
    law[states] = chain.stationary(matrix[np.ix_(states, states)])
    return law


@discounts
def test_solutions(matrix: Any, exact_law: Any, discount: float) -> None:
    """The residual is within the tolerance, and the solution is close to the exact one."""
    rewards, law = rewards_of(matrix), exact_law
    deviation = chain.deviation(matrix, law, discount)
    exact = deviation @ rewards
    reach = float(np.abs(deviation).sum(1).max())  # largest effect of a residual on the solution
    off = rounding(2 * len(matrix), float(np.abs(rewards).max()))  # of D r, in sums over states
    for tolerance in (1e-4, 1e-9):
        values, reached = SparseChain(sparse.csr_array(matrix), discount).solve(
            rewards, None, tolerance
        )
        assert reached, tolerance
        assert residual(matrix, discount, rewards, values) <= tolerance * (1 + 1e-6)
        distance = np.abs((values - law @ values) - exact).max()
        assert distance <= reach * (2 * tolerance + off)


def exact_times(matrix: Any, law: Any) -> Any:
    """Mean steps [S] to the likeliest state."""
    column = chain.deviation(matrix, law)[:, law.argmax()]
    return (column.max() - column) / law.max()


def test_stationary_laws(matrix: Any, exact_law: Any) -> None:
    times = exact_times(matrix, exact_law)
    for guess in (
        np.full(len(matrix), 1 / len(matrix)),
        np.eye(1, len(matrix), len(matrix) - 1)[0],
    ):
        law, error = SparseChain(sparse.csr_array(matrix)).stationary(guess)
        assert law.sum() == pytest.approx(1) and (law >= 0).all()
        # The exact one itself has about one rounding error per state, relative to its entries.
        assert np.abs(law - exact_law).sum() <= error + len(matrix) * EPS
        # Twice the sum of tolerance and rounding, times the mean steps to the likeliest state,
        # which are known to a tenth either way: 2 / (1 - 2 / 10) is less than 3.
        left = LAW_TOLERANCE * law.max() + rounding(int((matrix > 0).sum(0).max()) + 5, 2.0) * law
        assert error <= 3 * float(left @ times)


def test_a_solution_is_at_least_as_good_as_its_guess() -> None:
    matrix = nearly_decomposable(700, 1e-3)
    equations, rewards = SparseChain(sparse.csr_array(matrix)), rewards_of(matrix)
    start = rewards_of(matrix, seed=1)

    def norm(values: Any) -> float:
        left = rewards - values + matrix @ values
        return float(np.linalg.norm(left - left.mean()))

    norms = [norm(start)]
    for effort in (1, 2, 5, 20, 25):
        values, reached = equations.solve(rewards, start, 1e-15, effort)
        assert not reached and np.isfinite(values).all()
        norms.append(norm(values))
    assert norms == sorted(norms, reverse=True) and norms[-1] < 1e-3 * norms[0]
    untouched = start.copy()
    values, reached = equations.solve(rewards, start, 1e-9, 0)
    assert not reached and (values == start).all()
    assert (start == untouched).all()


def test_a_good_guess_needs_no_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, rewards = birth_death(60), rewards_of(birth_death(60))
    equations = SparseChain(sparse.csr_array(matrix))
    values, _ = equations.solve(rewards, None, 1e-10)
    monkeypatch.setattr(Multigrid, "__matmul__", lambda *_: pytest.fail("no cycle is needed"))
    again, reached = equations.solve(rewards, values + 3, 1e-9)
    assert reached and (again == values + 3).all()


def test_an_unreachable_tolerance_is_reported() -> None:
    """The residual of values of 1e6 is known to about 1e-10."""
    matrix = nearly_decomposable(60, 1e-7)
    equations, rewards = SparseChain(sparse.csr_array(matrix)), rewards_of(matrix)
    values, reached = equations.solve(rewards, None, 1e-14)
    assert not reached
    assert residual(matrix, 1.0, rewards, values) < 1e-6


def test_mergers_can_be_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a chain that differs a little, and for the discounted one."""
    monkeypatch.setattr(poisson, "COARSEST", 20)
    first = SparseChain(sparse.csr_array(birth_death(800)))
    assert [merger.shape[0] for merger in first.mergers][:2] == [800, 200]
    for merger in first.mergers:
        assert (merger.sum(1) == 1).all() and (merger.data == 1).all()
    for matrix, discount in ((birth_death(800, 0.35, 0.3), 1.0), (birth_death(800), 0.99)):
        other = SparseChain(sparse.csr_array(matrix), discount, first.mergers)
        rewards = rewards_of(matrix)
        values, reached = other.solve(rewards, None, 1e-8)
        assert reached and residual(matrix, discount, rewards, values) <= 1e-8 * (1 + 1e-6)
        assert other.mergers is first.mergers


@examples
@given(seeds, st.integers(1, 60), st.sampled_from([1.0, 0.99, 0.5]))
def test_random_chains(seed: int, states: int, discount: float) -> None:
    matrix, rewards = few_successors(states, seed), rewards_of(np.eye(states), seed)
    equations = SparseChain(sparse.csr_array(matrix), discount)
    values, reached = equations.solve(rewards, None, 1e-10)
    assert reached and residual(matrix, discount, rewards, values) <= 1.001e-10
    if discount == 1:
        law, error = equations.stationary(np.full(states, 1 / states))
        assert np.abs(law - chain.stationary(matrix)).sum() <= error + states * EPS
        gains = rewards - values + matrix @ values
        size = float(np.abs(values).max() + np.abs(rewards).max())
        off = rounding(states + 8, size) + error * float(np.abs(rewards).max())
        assert gains.min() - off <= law @ rewards <= gains.max() + off


@pytest.mark.parametrize("matrix", [CHAINS["birth and death"], CHAINS["nearly decomposable"]])
@pytest.mark.parametrize("discount", [1 - 1e-9, 0.99, 0.5])
def test_discounted_laws(matrix: Any, discount: float) -> None:
    first, exact = np.eye(1, len(matrix))[0], dense_law(matrix)
    expected = chain.discounted_stationary(matrix, first, discount)
    average = SparseChain(sparse.csr_array(matrix))
    law, error = SparseChain(sparse.csr_array(matrix), discount).discounted_stationary(
        exact, first, average.times(exact)
    )
    assert np.abs(law - expected).sum() <= error + len(matrix) * EPS
    left = LAW_TOLERANCE + rounding(len(matrix) + 5, 2.0) * law
    times = np.minimum(exact_times(matrix, exact), 1 / (1 - discount))
    assert error <= 3 * float(left @ times)


def test_errors_of_laws_are_bounds() -> None:
    """A law that is wrong on purpose: moved by `wrong` between two states, anywhere."""
    matrix = nearly_decomposable(60, 1e-3)
    equations, exact = SparseChain(sparse.csr_array(matrix)), dense_law(matrix)
    times, random = equations.times(exact), np.random.default_rng(0)
    assert (times >= exact_times(matrix, exact) * (1 - 1e-9)).all()
    assert (times <= exact_times(matrix, exact) / 0.8 + 1e-9).all()
    for wrong in (1e-3, 1e-6, 1e-9):
        for _ in range(20):
            origin, target = random.integers(60, size=2)
            law = exact + wrong * (np.eye(60)[target] - np.eye(60)[origin])
            error = equations._law_error(law, np.zeros(60), times)
            assert np.abs(law - exact).sum() <= error


def test_the_bound_on_the_error_of_a_law_is_no_more_than_needed() -> None:
    """Mass in the likeliest of two states that should be in the other: the bound is nearly exact.

    d (I - P) is off by 1.01 of it there, and the other state leads back in one step.
    """
    matrix = np.array([[0.99, 0.01], [1.0, 0.0]])
    exact, wrong = dense_law(matrix), 1e-6
    equations = SparseChain(sparse.csr_array(matrix))
    error = equations._law_error(
        exact + np.array([wrong, -wrong]), np.zeros(2), np.array([0.0, 1.0])
    )
    assert 2 * wrong <= error <= 1.02 * 2 * wrong


# --- independence of rounding ----------------------------------------------------------------


def wide(states: int) -> Any:
    """A walk over a square that drifts to the far corner, so that all mass has to move there."""
    line = sparse.csr_array(birth_death(states, 0.4, 0.3))
    return 0.5 * (
        sparse.kron(line, sparse.identity(states)) + sparse.kron(sparse.identity(states), line)
    )


@pytest.mark.parametrize("seed", range(6))
def test_laws_do_not_depend_on_the_last_bits(seed: int) -> None:
    """Different rounding changes where BiCGSTAB stagnates, but not the result."""
    matrix = sparse.csr_array(wide(40))
    equations, size = SparseChain(matrix), matrix.shape[0]
    random = np.random.default_rng(seed)
    guess = np.eye(1, size)[0]
    for _ in range(50):
        guess = guess @ matrix
    shaken = guess * (1 + EPS * random.integers(-4, 5, size))
    law, error = equations.stationary(shaken)
    ratio = (0.4 / 0.3) ** np.arange(40)
    exact = np.outer(ratio, ratio).ravel() / ratio.sum() ** 2
    assert np.abs(law - exact).sum() <= error < 1e-9


class Noisy:
    """A multigrid whose cycles are a linear map to six digits only, as in single precision."""

    def __init__(self, multigrid: Multigrid, seed: int) -> None:
        self.multigrid, self.random = multigrid, np.random.default_rng(seed)

    def __matmul__(self, vector: Any) -> Any:
        result = self.multigrid @ vector
        return result * (1 + 1e-6 * self.random.normal(size=len(result)))


@pytest.mark.parametrize("seed", range(4))
def test_bicgstab_is_restarted(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With noise one run stagnates, and restarts reach the rounding error."""
    matrix = sparse.csr_array(wide(40))
    equations, size = SparseChain(matrix), matrix.shape[0]
    nothing, guess = np.zeros(size), np.full(size, 1 / size)
    noisy = Noisy(equations._left_multigrid, seed)

    def left(effort: int) -> float:
        found = krylov.bicgstab(equations._transposed, nothing, guess, 1e-17, effort, noisy)
        assert found.sum() == pytest.approx(1)
        return float(np.abs(equations._transposed @ found).max())

    best = left(600)
    assert best < 1e-15
    monkeypatch.setattr(krylov, "WORTHWHILE", 0.0)  # no restart after any improvement
    assert left(600) > 100 * best


def test_bicgstab_returns_its_best_solution() -> None:
    """Its guess, if every direction is wrong; and never a non-finite solution."""
    matrix = sparse.csr_array(np.eye(5) - birth_death(5))
    right, guess = np.array([1.0, -1, 0, 0, 0]), np.zeros(5)

    class Broken:
        def __matmul__(self, vector: Any) -> Any:
            return np.full(len(vector), np.nan)

    for multigrid in (Broken(), -1e-30 * np.eye(5)):
        found = krylov.bicgstab(matrix, right, guess, 1e-12, 100, multigrid)
        assert np.isfinite(found).all()
        assert np.abs(right - matrix @ found).max() <= 1
    assert (krylov.bicgstab(matrix, right, guess, 1.0, 100, Broken()) == guess).all()


def test_bicgstab_takes_over_where_conjugate_residuals_stall() -> None:
    """A walk without drift: values grow with the square of its length."""
    matrix = sparse.csr_array(birth_death(3000, 0.35, 0.35))
    equations, rewards = SparseChain(matrix), np.linspace(-1, 1, 3000)
    multigrid = equations._multigrid
    stuck, left = krylov.conjugate_residuals(
        equations.matrix, rewards, None, 1e-9, poisson.EFFORT, multigrid
    )
    assert left > 0 and np.ptp(rewards - equations.matrix @ stuck) > 0.1
    values, _ = equations.solve(rewards, None, 1e-9)
    off = rounding(3 + 8, 2 * float(np.abs(values).max()))
    assert np.ptp(rewards - equations.matrix @ values) <= 2 * off


# --- what cannot be solved -------------------------------------------------------------------


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Evaluations of a chain by the methods for large models."""
    monkeypatch.setattr(evaluation, "DENSE", 1)

    def evaluated(matrix: Any, discount: float = 1.0) -> Any:
        mdp = MDP([sparse.csr_array(matrix)], rewards_of(matrix)[:, None])
        return evaluate(mdp, np.zeros(len(matrix)), discount)

    return evaluated


@pytest.mark.parametrize("discount", [1.0, 0.99])
def test_transient_states_are_left_out_of_the_law(large: Any, discount: float) -> None:
    """For every start: it may be a transient state itself."""
    matrix = transient(700)
    mdp = MDP([sparse.csr_array(matrix)], rewards_of(matrix)[:, None], initial=np.eye(700)[600])
    found = evaluate(mdp, np.zeros(700), discount)
    assert (found.stationary[3:] == 0).all()
    np.testing.assert_allclose(found.stationary, dense_law(matrix), atol=1e-15)
    exact = chain.discounted_stationary(matrix, mdp.initial, discount) if discount < 1 else None
    if exact is not None:
        np.testing.assert_allclose(found.discounted_stationary, exact, atol=1e-12)


def test_values_that_do_not_converge_raise(large: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = SparseChain.solve
    monkeypatch.setattr(SparseChain, "solve", lambda *given: usual(*given, effort=1))
    for name in ("gain", "bias", "q", "advantage", "gain_error"):
        message = r"the solution of the chain's equations may be off by \S+, since the chain"
        with pytest.raises(NoConvergence, match=message):
            getattr(large(nearly_decomposable(700, 1e-3)), name)


def test_laws_that_do_not_converge_raise(large: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = birth_death(700)
    monkeypatch.setattr(SparseChain, "left_solve", lambda _, right, guess, tolerance: guess)
    for discount in (1.0, 0.9):
        with pytest.raises(NoConvergence, match=r"the stationary law may be off by \S+, since"):
            _ = large(matrix, discount).discounted_stationary
    exact = chain.stationary(matrix)
    monkeypatch.setattr(SparseChain, "stationary", lambda _, guess: (exact, 0.0))
    with pytest.raises(NoConvergence, match=r"the discounted law may be off by \S+, since"):
        _ = large(matrix, 0.9).discounted_stationary


def test_a_trace_that_does_not_converge_raises(large: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = large(few_successors(50))
    assert found.stationary.sum() == pytest.approx(1)
    monkeypatch.setattr(SparseChain, "solve", lambda _, rewards, *rest: (rewards, False))
    with pytest.raises(RuntimeError, match="a Poisson equation of Kemeny's constant was not"):
        _ = found.kemeny


@pytest.mark.parametrize("states", [60, 700])
@pytest.mark.parametrize("coupling", [1e-5, 1e-7, 1e-9])
def test_slow_chains(large: Any, states: int, coupling: float) -> None:
    """Values of 1 / coupling are known to EPS of that, and so are the gain and the law."""
    matrix = nearly_decomposable(states, coupling)
    law = chain.stationary(matrix)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        found = large(matrix)
        assert abs(found.gain - law @ found.rewards) <= found.gain_error
        assert np.abs(found.stationary - law).sum() <= found.stationary_error
    most = rounding(states + 8, 10.0) / coupling
    assert found.gain_error < most and found.stationary_error < 2 * most


def test_chains_that_are_too_slow(large: Any) -> None:
    """At 1e-11 there is a warning, at 1e-15 an error: the coupling is then below rounding."""
    found = large(nearly_decomposable(60, 1e-11))
    with pytest.warns(PrecisionWarning, match=r"the stationary law may be off by \S+, since"):
        assert LOOSE < found.stationary_error < USELESS
    with pytest.warns(PrecisionWarning, match=r"the solution of the chain's equations may be off"):
        assert LOOSE < found.gain_error < USELESS
    for name in ("stationary", "gain"):
        with pytest.raises(NoConvergence, match=r"may be off by .* speed up its rarest"):
            getattr(large(nearly_decomposable(60, 1e-15)), name)


@st.composite
def matrices(draw: st.DrawFn) -> Any:
    """Many rows are empty, some have all the entries."""
    random = np.random.default_rng(draw(seeds))
    shape = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    dense = random.normal(size=shape) * (random.random(shape) < draw(st.floats(0, 1)))
    dense[random.random(shape[0]) < draw(st.sampled_from([0.0, 0.5, 1.0]))] = 0
    return sparse.csr_array(dense), random.normal(size=shape[1])


@examples
@given(matrices(), st.sampled_from([1, 2, 5]), st.sampled_from([1, 2, 3, None]))
def test_blocks_of_rows(parts: tuple[Any, Any], entries: int, cores: int | None) -> None:
    matrix, vector = parts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "ENTRIES", entries)
        patch.setattr(products.os, "cpu_count", lambda: cores)
        blocks = RowBlocks(matrix)
        most = 2 * cores if cores and cores > 1 else 1
        assert len(blocks.blocks) == max(1, min(most, matrix.nnz // entries))
        np.testing.assert_array_equal(blocks @ vector, matrix @ vector)


def test_blocks_share_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "ENTRIES", 10)
    monkeypatch.setattr(products.os, "cpu_count", lambda: 2)
    matrix = sparse.csr_array(birth_death(50))
    blocks = RowBlocks(matrix)
    assert len(blocks.blocks) == 4
    for block in blocks.blocks:
        assert np.shares_memory(block.data, matrix.data)
        assert np.shares_memory(block.indices, matrix.indices)
    sizes = [block.nnz for block in blocks.blocks]
    assert sum(sizes) == matrix.nnz and max(sizes) < 1.2 * min(sizes)


def test_lookahead_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An action that is not available has an empty row."""
    monkeypatch.setattr(products.os, "cpu_count", lambda: 2)
    stay, walk = np.eye(30), birth_death(30)
    stay[3] = 0
    available = np.ones((30, 2), bool)
    available[3, 0] = False
    made: Any = [sparse.csr_array(stay), sparse.csr_array(walk)]
    mdp, plain = (MDP(made, np.ones((30, 2)), available=available) for _ in range(2))
    values = rewards_of(walk)
    expected = plain.lookahead(values, 0.9)
    monkeypatch.setattr(products, "ENTRIES", 1)
    np.testing.assert_array_equal(mdp.lookahead(values, 0.9), expected)
    assert mdp.lookahead(values)[3, 0] == -np.inf
