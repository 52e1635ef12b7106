"""Solvers: all methods agree, brackets contain the exact gain, and unsolvable models raise."""

from __future__ import annotations

import importlib
import itertools
import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_mdps import COUPLING, examples, random_mdp, seeds
from scipy import sparse

from longrun import tabular
from longrun.base.errors import InputError
from longrun.exact.tabular.chain import stationary
from longrun.exact.tabular.models import (
    access_control,
    inventory,
    machine_replacement,
    maintenance,
    riverswim,
)
from longrun.exact.tabular.precision import USELESS, rounding
from longrun.exact.tabular.solvers import METHODS
from longrun.exact.tabular.solvers.policy_iteration import one_recurrent_class
from longrun.exact.tabular.solvers.solution import NEAR_ZERO, bracket
from longrun.exact.tabular.structure import chain_structure, end_components
from longrun.tabular import MDP, NoConvergence, PrecisionWarning, Solution, evaluate
from reference_networks import criss_cross, tandem

# The package's attribute of this name is the function.
policy_iteration = importlib.import_module("longrun.exact.tabular.solvers.policy_iteration")

EVERY = [
    ("policy_iteration", "dense"),
    ("policy_iteration", "krylov"),
    ("value_iteration", "auto"),
    ("modified_policy_iteration", "auto"),
    ("linear_program", "auto"),
]


def solve(mdp: MDP, method: str = "auto", *, linear_solver: str = "auto", **options: Any) -> Any:
    """`tabular.solve`, where policy iteration evaluates as in small models, or as in large ones."""
    most = {"dense": 10**9, "krylov": 0}.get(linear_solver, policy_iteration.ELIMINATED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_iteration, "ELIMINATED", most)
        return tabular.solve(mdp, method, **options)


every_way = pytest.mark.parametrize(("method", "linear_solver"), EVERY)


def random_model(random: np.random.Generator, states: int, actions: int, whole: bool) -> MDP:
    """One to three successors: policies often have several recurrent classes, and periods."""
    available = random.random((states, actions)) < 0.8
    available[np.arange(states), random.integers(actions, size=states)] = True
    transitions = np.zeros((states, actions, states))
    for s, a in np.argwhere(available):
        count = min(states, int(random.integers(1, 4)))
        weights = np.ones(count) if whole else random.random(count) + 0.01
        transitions[s, a, random.choice(states, count, replace=False)] = weights / weights.sum()
    size = (states, actions)
    rewards = random.integers(-2, 3, size) if whole else random.normal(size=size)
    made: Any = transitions
    if random.random() < 0.5:
        made = [sparse.csr_array(transitions[:, a]) for a in range(actions)]
    return MDP(made, rewards, available=available)


@st.composite
def weakly_communicating(
    draw: st.DrawFn, most: int = 6, kinds: tuple[str, ...] = ("dense", "periodic", "multichain")
) -> MDP:
    """Half of them from `random_mdp`."""
    random = np.random.default_rng(draw(seeds))
    size = draw(st.integers(1, most)), draw(st.integers(1, 3))
    if draw(st.booleans()):
        return random_mdp(random, draw(st.sampled_from(kinds)), *size)
    mdp = random_model(random, *size, whole=draw(st.booleans()))
    assume(end_components(mdp).max() == 0)
    return mdp


def dense_chain(mdp: MDP, policy: Any) -> tuple[Any, Any]:
    transition, rewards = mdp.chain(np.asarray(policy))
    return (transition.toarray() if mdp.is_sparse else transition), rewards


def best_gain(mdp: MDP) -> tuple[float, float]:
    """Best gain of all recurrent classes of all deterministic policies, and its rounding error.

    By elimination without subtraction, which knows the law of the slowest chain.
    """
    best = -np.inf
    for policy in itertools.product(*(np.flatnonzero(row) for row in mdp.available)):
        transition, rewards = dense_chain(mdp, policy)
        for states in chain_structure(transition).recurrent:
            law = stationary(transition[np.ix_(states, states)])
            best = max(best, float(law @ rewards[states]))
    size = float(np.abs(mdp.rewards[mdp.available]).max())
    return best, rounding(20 * mdp.num_states, size)


def check(mdp: MDP, found: Solution, tolerance: float = 1e-8) -> None:
    """The properties of every solution, for every method."""
    assert found.gain_low <= found.gain <= found.gain_high
    scale = max(abs(found.gain), 1e-3 * np.abs(mdp.rewards[mdp.available]).max())
    assert found.gain_high - found.gain_low <= tolerance * (1 + 1e-6) * scale
    own = evaluate(mdp, found.policy)
    assert found.gain_low - own.gain_error <= own.gain <= found.gain_high + own.gain_error
    assert found.bias[0] == 0
    best = mdp.lookahead(found.bias).max(1)
    # Once for this change, and once for the bias, which is shifted to be 0 in state 0.
    size = float(np.abs(found.bias).max() + np.abs(best).max())
    off = 2 * rounding(mdp.longest_row + 4, size)
    change = best - found.bias
    assert change.min() >= found.gain_low - off
    # The upper end is the lowest that was found, and may belong to another bias.
    assert found.gain_high <= change.max() + off


# --- known models ----------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize(
    ("mdp", "gain"),
    [
        (riverswim(), 0.4286224338),
        (access_control(), 2.7476419506),
        (tandem(size=6), -4.2869919205),
        (criss_cross("IL", size=4), -0.6678172038),
        (criss_cross("BL", size=4), -0.8393215183),
        (inventory(), -20.8337391820),
        (machine_replacement(), -2.2724124205),
        (maintenance(), 100 / 141),
    ],
    ids=lambda value: value.name if isinstance(value, MDP) else "",
)
def test_known_gains(mdp: MDP, gain: float, method: str, linear_solver: str) -> None:
    found = solve(mdp, method, linear_solver=linear_solver)
    check(mdp, found)
    assert found.method == method
    assert found.gain == pytest.approx(gain, rel=1e-7)


@every_way
def test_by_hand(method: str, linear_solver: str) -> None:
    """Wait for 1, or move for 0 to where moving back pays 4: (0 + 4) / 2 is best."""
    mdp = MDP([[[1, 0], [0, 1]], [[1, 0], [0, 1]]], [[1, 0], [4, 0]])
    found = solve(mdp, method, linear_solver=linear_solver)
    check(mdp, found)
    assert found.gain == pytest.approx(2)
    assert found.policy.tolist() == [1, 0]
    assert found.bias == pytest.approx([0, 2], abs=1e-6)


@every_way
@pytest.mark.parametrize("length", [2, 3, 7])
def test_periodic_models(length: int, method: str, linear_solver: str) -> None:
    """A cycle that pays 1 per round: without the aperiodicity transform T h - h would rotate."""
    cycle = np.roll(np.eye(length), 1, axis=1)[:, None]
    found = solve(MDP(cycle, np.eye(1, length).T), method, linear_solver=linear_solver)
    assert found.gain == pytest.approx(1 / length, rel=1e-8)


@every_way
def test_one_state(method: str, linear_solver: str) -> None:
    found = solve(MDP([[[1], [1]]], [[3, 5]]), method, linear_solver=linear_solver)
    assert found.gain == pytest.approx(5) and found.policy.tolist() == [1]
    nothing = solve(MDP([[[1]]], [[0]]), method, linear_solver=linear_solver)
    assert nothing.gain == 0


@every_way
def test_policies_with_two_classes_are_joined(method: str, linear_solver: str) -> None:
    """Staying pays 1 in both states, so that greedy policies stay; one of them has to move."""
    mdp = MDP(np.stack([np.eye(2), [[0, 1], [1, 0]]], axis=1), [[1, 0], [1, 0]])
    found = solve(mdp, method, linear_solver=linear_solver)
    check(mdp, found)
    assert found.gain == pytest.approx(1) and sorted(found.policy) == [0, 1]


@every_way
def test_actions_that_are_not_available(method: str, linear_solver: str) -> None:
    """The unavailable action would pay most."""
    transitions = [[[0, 1], [0, 0]], [[1, 0], [0, 1]]]
    mdp = MDP(transitions, [[1, 99], [2, 0]], available=[[True, False], [True, True]])
    found = solve(mdp, method, linear_solver=linear_solver)
    check(mdp, found)
    assert found.gain == pytest.approx(1.5) and found.policy.tolist() == [0, 0]


@pytest.mark.parametrize("length", [20, 60, 100, 300])
@pytest.mark.parametrize("linear_solver", ["dense", "krylov"])
def test_slow_intermediate_policies(length: int, linear_solver: str) -> None:
    """RiverSwim: a policy that swims right from the middle changes halves every 7^(length / 2)."""
    found = solve(riverswim(length), linear_solver=linear_solver)
    assert found.gain == pytest.approx(3 / 7, rel=1e-6)
    assert (found.policy == 1).all()


def exactly_singular(*_: Any) -> Any:
    raise np.linalg.LinAlgError("a pivot is 0")


def all_rounding(sign: float) -> Any:
    """A last pivot that is a rounding error of either sign scales the slow mode."""
    return lambda transition, *_: sign * 1e16 * (np.arange(transition.shape[0]) >= 50)


@pytest.mark.parametrize(
    "elimination",
    [
        exactly_singular,
        all_rounding(1.0),
        all_rounding(-1.0),
        lambda transition, *_: np.full(transition.shape[0], np.nan),
        lambda transition, *_: np.full(transition.shape[0], np.inf),
    ],
    ids=["singular", "right sign", "wrong sign", "not a number", "infinite"],
)
def test_slow_policies_with_any_rounding(elimination: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of these can occur, depending on the instruction set."""
    usual = policy_iteration.EVALUATIONS["dense"]()
    calls: list[bool] = []

    def evaluate(transition: Any, rewards: Any, discount: float, tolerance: float) -> Any:
        moves = np.abs(np.diag(policy_iteration.dense(transition), -1))
        slow = discount == 1 and (moves[1:] == 1).any()  # some state swims left
        calls.append(slow)
        way = elimination if slow else usual
        return way(transition, rewards, discount, tolerance)

    monkeypatch.setitem(policy_iteration.EVALUATIONS, "dense", lambda: evaluate)
    found = solve(riverswim(100))
    assert any(calls)
    assert found.gain == pytest.approx(3 / 7, rel=1e-8) and (found.policy == 1).all()


def test_an_evaluation_is_at_least_as_good_as_its_start() -> None:
    """For every policy of RiverSwim that swims right from some state, and for every solver."""
    mdp, width = riverswim(40), 1.0
    for turn in range(1, 40):
        policy = (np.arange(40) >= turn).astype(int)
        transition, rewards = mdp.chain(policy)
        start = np.linspace(0, turn, 40)

        def spread(values: Any, chain: Any = transition, paid: Any = rewards) -> float:
            return float(np.ptp(paid - values + chain @ values))

        for name in ("dense", "krylov"):
            evaluate = policy_iteration.EVALUATIONS[name]()
            bias, _ = policy_iteration._evaluated(evaluate, mdp, policy, start, width, 1e-9)
            off = rounding(mdp.longest_row + 4, 2 * float(np.abs(bias).max()))
            assert spread(bias) <= spread(start) + 2e-9 + off, (turn, name)


def test_large_models_are_solved_iteratively(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = tandem(size=12)
    exact = solve(mdp)
    used: list[str] = []
    for name, make in policy_iteration.EVALUATIONS.items():
        monkeypatch.setitem(
            policy_iteration.EVALUATIONS,
            name,
            lambda name=name, make=make: (used.append(name), make())[1],
        )
    solve(mdp)
    monkeypatch.setattr(policy_iteration, "ELIMINATED", 100)
    found = solve(mdp)
    assert used == ["dense", "krylov"]
    assert found.gain == pytest.approx(exact.gain, rel=1e-8)
    check(mdp, found)


# --- relations -------------------------------------------------------------------------------


@examples
@given(weakly_communicating(most=4))
def test_brackets_contain_the_best_gain(mdp: MDP) -> None:
    exact, off = best_gain(mdp)
    for method, linear_solver in EVERY:
        found = solve(mdp, method, linear_solver=linear_solver)
        check(mdp, found)
        assert found.gain_low - off <= exact <= found.gain_high + off, (method, linear_solver)


@examples
@given(weakly_communicating(most=4, kinds=tuple(COUPLING)), st.sampled_from(EVERY))
def test_brackets_of_nearly_reducible_models(mdp: MDP, way: tuple[str, str]) -> None:
    """They may be wide, with a warning or an error, but contain the best gain."""
    method, linear_solver = way
    exact, off = best_gain(mdp)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        try:
            found = solve(mdp, method, linear_solver=linear_solver, max_iterations=300)
        except NoConvergence as stopped:
            found = stopped.solution
    if found is not None:
        assert found.gain_low - off <= exact <= found.gain_high + off


@examples
@given(weakly_communicating(most=25))
def test_all_methods_agree(mdp: MDP) -> None:
    first, *others = (solve(mdp, method, linear_solver=solver) for method, solver in EVERY)
    check(mdp, first)
    for other in others:
        check(mdp, other)
        assert max(first.gain_low, other.gain_low) <= min(first.gain_high, other.gain_high)


@examples
@given(weakly_communicating(most=4), seeds, st.sampled_from([1e-3, 1.0, 1e6]))
def test_any_values_give_a_bracket(mdp: MDP, seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    values = scale * (random.normal(size=mdp.num_states) + 10 * random.normal())
    found = bracket(mdp, values)
    exact, off = best_gain(mdp)
    assert found.low - off <= exact <= found.high + off
    led = evaluate(mdp, one_recurrent_class(mdp, found.policy))
    assert led.gain + led.gain_error >= found.low
    np.testing.assert_array_equal(found.best, mdp.lookahead(values).max(1))


@examples
@given(weakly_communicating(), seeds)
def test_one_recurrent_class(mdp: MDP, seed: int) -> None:
    """The best class is unchanged, and so is a policy that has only one class."""
    random = np.random.default_rng(seed)
    policy = np.array([random.choice(np.flatnonzero(row)) for row in mdp.available])
    before = policy.copy()
    led = one_recurrent_class(mdp, policy)
    assert (policy == before).all()
    transition, rewards = dense_chain(mdp, policy)
    found = chain_structure(transition)
    if found.unichain:
        assert (led == policy).all()
    classes = []
    for states in found.recurrent:
        part = MDP(transition[np.ix_(states, states)][:, None], rewards[states, None])
        classes.append(evaluate(part, np.zeros(len(states))).gain)
    assert evaluate(mdp, led).gain == pytest.approx(max(classes), rel=1e-9, abs=1e-9)


def test_states_that_are_led_to_the_best_class_keep_their_actions() -> None:
    """0 and 1 stay, for 1 and 2; state 2 goes to either, and could go straight to 0."""
    stay, go = [[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0]], [[0, 1, 0], [1, 0, 0], [1, 0, 0]]
    mdp = MDP(np.stack([stay, go], axis=1), [[1, 0], [2, 0], [0, 9]])
    assert one_recurrent_class(mdp, np.array([0, 0, 0])).tolist() == [1, 0, 0]


def test_large_recurrent_classes_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rings; the second pays more. Only the first state of each leads to the other."""
    ring = np.roll(np.eye(4), 1, axis=1)
    lazy = 0.5 * np.kron(np.eye(2), ring + np.eye(4))
    change = lazy.copy()
    change[[0, 4]] = np.eye(8)[[4, 0]]
    rewards = np.repeat([1.0, 1.0, 2.0, 0.5], [2, 2, 3, 1])
    made: Any = [sparse.csr_array(lazy), sparse.csr_array(change)]
    mdp = MDP(made, np.stack([rewards, np.zeros(8)], axis=1))
    for limit in (2000, 2):
        monkeypatch.setattr(policy_iteration, "DENSE", limit)
        led = one_recurrent_class(mdp, np.zeros(8, int))
        assert led.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
        assert solve(mdp).gain == pytest.approx(1.625)


def test_actions_that_differ_by_rounding_are_kept() -> None:
    mdp = MDP([[[1], [1], [1]]], [[0.3, 0.1 + 0.2, 0.2]])
    for given_action, kept in ((0, 0), (1, 1), (2, 1)):
        assert bracket(mdp, np.zeros(1), np.array([given_action])).policy.tolist() == [kept]


# --- methods ---------------------------------------------------------------------------------


def test_linear_program_needs_one_evaluation() -> None:
    """Where all states are visited, its policy is already optimal."""
    calls: list[tuple[int, float, float]] = []
    found = solve(access_control(), "linear_program", on_iteration=lambda *call: calls.append(call))
    assert len(calls) == 1 and found.iterations > 1
    assert found.gain == pytest.approx(2.7476419506)


@pytest.mark.parametrize("limit", [2000, 2])
def test_states_that_the_linear_program_never_visits_are_corrected(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays at 3 forever; frequencies of 0 determine no action in 0 to 2; left is first."""
    monkeypatch.setattr(policy_iteration, "DENSE", limit)
    left, right = np.eye(4)[[0, 0, 1, 2]], np.eye(4)[[1, 2, 3, 3]]
    mdp = MDP(np.stack([left, right], axis=1), [[0, 0], [0, 0], [0, 0], [0, 1]])
    found = solve(mdp, "linear_program")
    check(mdp, found)
    assert found.policy.tolist() == [1, 1, 1, 1] and found.gain == pytest.approx(1)


@every_way
def test_progress_is_reported(method: str, linear_solver: str) -> None:
    calls: list[tuple[int, float, float]] = []
    found = solve(
        riverswim(),
        method,
        linear_solver=linear_solver,
        on_iteration=lambda *call: calls.append(call),
    )
    numbers, lows, highs = zip(*calls, strict=True)
    assert list(numbers) == list(range(1, len(calls) + 1))
    assert (lows[-1], highs[-1]) == (found.gain_low, found.gain_high)
    assert all(low <= 0.42862244 and high >= 0.42862243 for _, low, high in calls)
    if method != "linear_program":
        assert len(calls) == found.iterations


# --- errors ----------------------------------------------------------------------------------

STOPPED = r"(\w+) stopped after (\d+) iterations with the gain between (\S+) and (\S+); (.*)"


@pytest.mark.parametrize(
    ("method", "limit", "advice"),
    [
        ("value_iteration", 1, "raise max_iterations or take policy_iteration"),
        ("value_iteration", 7, "raise max_iterations or take policy_iteration"),
        ("modified_policy_iteration", 2, "raise max_iterations or take policy_iteration"),
        ("policy_iteration", 1, "raise max_iterations or tolerance"),
    ],
)
def test_no_convergence_contains_the_best_solution(method: str, limit: int, advice: str) -> None:
    calls: list[tuple[int, float, float]] = []
    with pytest.raises(NoConvergence) as caught:
        solve(
            riverswim(200),
            method,
            max_iterations=limit,
            on_iteration=lambda *call: calls.append(call),
        )
    told = re.fullmatch(STOPPED, str(caught.value))
    assert told and told[1] == method and int(told[2]) == limit == len(calls)
    low, high = float(told[3]), float(told[4])
    assert low <= 3 / 7 <= high
    best = caught.value.solution
    assert best is not None and (best.gain_low, best.gain_high) == pytest.approx((low, high))
    assert best.gain_low >= max(low for _, low, _ in calls)
    assert best.gain_high <= min(high for _, _, high in calls)
    # The policy's own gain is a sum over 200 states, with about one rounding error each.
    gain = evaluate(riverswim(200), best.policy).gain
    assert gain >= best.gain_low - rounding(2 * 200, gain)
    assert told[5] == advice


@every_way
def test_rounding_can_prevent_the_tolerance(method: str, linear_solver: str) -> None:
    """Then the bracket is as narrow as rounding allows, with a warning."""
    mdp = riverswim()
    told = (
        r"stopped after .* iterations with the gain between .*; rounding does not allow more here"
    )
    with pytest.warns(PrecisionWarning, match=told) as warned:
        found = solve(mdp, method, tolerance=1e-16, linear_solver=linear_solver, max_iterations=300)
    assert len(warned) == 1 and str(warned[0].message).endswith("; raise tolerance=1e-16")
    assert warned[0].filename == __file__
    check(mdp, found, tolerance=1e-11)


def slow_pair(rate: float) -> MDP:
    """Two states that are left once in 1 / rate steps; the second pays 1: the gain is a half."""
    return MDP(((1 - rate) * np.eye(2) + rate * (1 - np.eye(2)))[:, None], [[0], [1]])


@pytest.mark.parametrize(
    ("rate", "warns", "raises"), [(1e-6, False, False), (1e-10, True, False), (1e-16, True, True)]
)
def test_results_of_slow_models(rate: float, warns: bool, raises: bool) -> None:
    """Values of 1 / rate are known to EPS of that: a warning, and an error if no digit is left."""
    if raises:
        with pytest.raises(NoConvergence) as caught:
            solve(slow_pair(rate))
        found = caught.value.solution
        assert found is not None
    elif warns:
        with pytest.warns(PrecisionWarning, match="rounding does not allow more here"):
            found = solve(slow_pair(rate))
    else:
        found = solve(slow_pair(rate))
    assert found.gain_low <= 0.5 <= found.gain_high
    width = found.gain_high - found.gain_low
    assert (width > 1e-8 * 0.5) == warns and (width > USELESS) == raises


@pytest.mark.parametrize(("width", "warns"), [(0.99, True), (1.01, False)])
def test_how_wide_a_result_may_be(
    width: float, warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative to the higher end, as everywhere."""
    low, high = 1 - width * USELESS, 1.0
    made = Solution((low + high) / 2, low, high, np.zeros(2, int), np.zeros(2), 7, "mine")
    monkeypatch.setitem(METHODS, "value_iteration", lambda *_: made)
    if warns:
        with pytest.warns(PrecisionWarning, match="mine stopped after 7 iterations"):
            assert solve(slow_pair(0.1), "value_iteration").gain == made.gain
    else:
        with pytest.raises(NoConvergence, match="mine stopped after 7 iterations") as caught:
            solve(slow_pair(0.1), "value_iteration")
        assert caught.value.solution is not None and caught.value.solution.gain == made.gain


def test_a_bracket_is_closed_at_the_tolerance() -> None:
    """Of the gain, or of a thousandth of the rewards that the policy takes where that is more."""
    mdp = MDP([[[1], [1]]], [[2.0, -1e6]])
    at = bracket(mdp, np.zeros(1))

    def closed(low: float, high: float) -> bool:
        return at._replace(low=low, high=high).closed(mdp, 1e-3, 1e6)

    assert closed(1.0, 1.0 + 0.999e-3) and not closed(1.0, 1.0 + 1.002e-3)
    assert closed(-1.0 - 0.999e-3, -1.0) and not closed(-1.0 - 1.002e-3, -1.0)
    assert closed(-0.499 * NEAR_ZERO * 2e-3, 0.499 * NEAR_ZERO * 2e-3)
    assert not closed(-0.501 * NEAR_ZERO * 2e-3, 0.501 * NEAR_ZERO * 2e-3)
    assert closed(0.0, 0.0)


def test_joining_two_brackets() -> None:
    mdp = slow_pair(0.1)
    one = bracket(mdp, np.zeros(2))._replace(low=1.0, high=5.0)
    other = bracket(mdp, np.ones(2))._replace(low=2.0, high=6.0)
    for joined in (one.joined(other), other.joined(one)):
        assert (joined.low, joined.high) == (2.0, 5.0)
        assert joined.values is other.values and joined.policy is other.policy


@every_way
def test_chains_too_slow_for_any_method(method: str, linear_solver: str) -> None:
    """Two states that are left once in 1e17 steps: 1 - 1e-17 is 1, but the model is connected."""
    stay = np.eye(2) + 1e-17 * (1 - np.eye(2))
    mdp = MDP(stay[:, None], [[0], [1]])
    with pytest.raises(NoConvergence, match=r"stopped after .* iterations with the gain") as caught:
        solve(mdp, method, linear_solver=linear_solver, max_iterations=100)
    found = caught.value.solution
    assert found is not None and found.gain_low <= 0.5 <= found.gain_high


@every_way
def test_singular_chains(method: str, linear_solver: str) -> None:
    """A star that is left once in 1e17 steps: two rows of I - P are 0, and LU raises."""
    star = np.eye(3) + 1e-17 * np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    mdp = MDP(star[:, None], [[0], [1], [2]])
    with pytest.raises(NoConvergence, match=r"with the gain between"):
        solve(mdp, method, linear_solver=linear_solver, max_iterations=50)


@every_way
def test_penalties_that_are_never_paid(method: str, linear_solver: str) -> None:
    """The tolerance is relative to the gain, not to the largest entry of the rewards."""
    river = riverswim(20)
    blocks: Any = [river.kernel[:20], river.kernel[20:], river.kernel[:20]]
    mdp = MDP(blocks, np.column_stack([1e-6 * river.rewards, np.full(20, -1e6)]))
    found = solve(mdp, method, linear_solver=linear_solver)
    assert found.gain == pytest.approx(3e-6 / 7, rel=1e-6)
    assert found.gain_high - found.gain_low <= 1e-8 * found.gain_high


def test_as_many_classes_as_states() -> None:
    """All rewards are 0, so that every state stays; all are led to one of them."""
    size = 3000
    ring = sparse.csr_array(np.roll(np.eye(size), 1, axis=1))
    mdp = MDP([sparse.identity(size, format="csr"), ring], np.zeros((size, 2)))
    found = solve(mdp)
    assert found.gain == 0 and (found.policy == 0).sum() == 1


@pytest.mark.parametrize("method", METHODS)
def test_a_gain_that_depends_on_the_start_is_refused(method: str) -> None:
    mdp = MDP([[[1, 0]], [[0, 1]]], [[1], [2]])
    message = (
        "the model has 2 sets of states in which a policy can stay forever (states 0 and 1, for "
        "example), so its optimal gain may depend on the start"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        solve(mdp, method)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"method": "howard"},
            "unknown method 'howard'; valid: auto, policy_iteration, value_iteration, "
            "modified_policy_iteration, linear_program",
        ),
        (
            {"discount": 0.9},
            "solve has no discount: it maximises the long-run average; give"
            " evaluate(mdp, policy, discount=0.9) or"
            " trust_region_policy_iteration(mdp, discount=0.9)",
        ),
        ({"tolerance": 0.0}, "tolerance=0.0 is not between 0 and 1; take 1e-8, for example"),
        ({"tolerance": 1.0}, "tolerance=1.0 is not between 0 and 1"),
        ({"tolerance": np.nan}, "tolerance=nan is not between 0 and 1"),
        ({"max_iterations": 0}, "max_iterations=0 must be 1 or more, a whole number"),
        ({"max_iterations": -3}, "max_iterations=-3 must be 1 or more"),
        ({"max_iterations": "9"}, "max_iterations='9' must be 1 or more, a whole number"),
        ({"tolerance": "1e-8"}, "tolerance='1e-8' is not between 0 and 1"),
    ],
)
def test_settings_that_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        solve(riverswim(), **settings)


class Queue:
    """Like an environment of a network."""

    def exact(self) -> MDP:
        return riverswim()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("riverswim", "solve needs an MDP, and 'riverswim' is a str"),
        (Queue(), "is a Queue; give its model, .exact(...)"),
    ],
)
def test_what_is_no_model(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        solve(given)
    with pytest.raises(InputError, match=re.escape(message).replace("solve", "evaluate")):
        evaluate(given, [0])
