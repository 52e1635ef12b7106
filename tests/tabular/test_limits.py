"""Limits on costs: optimal under them, feasible, certified, and infeasible ones are measured."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_mdps import examples, seeds
from scipy import optimize
from test_solvers import dense_chain, weakly_communicating

from longrun.cli.solve_report import describe
from longrun.exact.tabular.limits import solver as limited_solver
from longrun.exact.tabular.limits.columns import Column, best_mixture
from longrun.exact.tabular.models import (
    access_control,
    admission,
    garnet,
    inventory,
    machine_replacement,
    maintenance,
    riverswim,
)
from longrun.exact.tabular.precision import rounding
from longrun.exact.tabular.structure import chain_structure
from longrun.queueing import MODELS as NETWORKS
from longrun.tabular import (
    MDP,
    InfeasibleLimits,
    NoConvergence,
    Solution,
    evaluate,
    from_gymnasium,
    reachable,
    solve,
)

# The package's attribute of this name is the function.
policy_iteration_module = importlib.import_module("longrun.exact.tabular.solvers.policy_iteration")
METHODS = ("linear_program", "policy_iteration")
every_method = pytest.mark.parametrize("method", METHODS)


def class_rates(mdp: MDP, costs: dict[str, Any]) -> Any:
    """[classes, 1 + K] gain and costs of all recurrent classes of all deterministic policies."""
    points = []
    for policy in itertools.product(*(np.flatnonzero(row) for row in mdp.available)):
        transition, rewards = dense_chain(mdp, policy)
        states = np.arange(mdp.num_states)
        paid = np.stack([rewards, *(cost[states, policy] for cost in costs.values())], axis=1)
        for members in chain_structure(transition).recurrent:
            system = np.eye(len(members)) - transition[np.ix_(members, members)]
            system[:, 0] = 1
            points.append(np.linalg.solve(system, paid[members])[0])
    return np.unique(np.round(points, 13), axis=0)


def best_of(points: Any, limits: Any, scale: Any = None) -> tuple[float, float]:
    """The best gain of mixtures within limits, and the least violation, relative to scale [K].

    In a weakly communicating model every mixture of recurrent classes can be approached.
    """
    count, costs = len(points), points.shape[1] - 1
    over = points[:, 1:] - limits
    found = optimize.linprog(
        np.r_[np.zeros(count), 1],
        A_ub=np.c_[over.T / np.ones(costs)[:, None], -np.ones(costs) if scale is None else -scale],
        b_ub=np.zeros(costs),
        A_eq=np.r_[np.ones(count), 0][None],
        b_eq=[1],
        bounds=[*[(0, 1)] * count, (None, None)],
    )
    if found.fun > 0:
        return -np.inf, found.fun
    best = optimize.linprog(
        -points[:, 0],
        A_ub=over.T,
        b_ub=np.zeros(costs),
        A_eq=np.ones((1, count)),
        b_eq=[1],
    )
    return -best.fun, found.fun


def check(mdp: MDP, costs: dict[str, Any], found: Solution, tolerance: float = 1e-8) -> None:
    """What holds of every result: its policy, evaluated independently, has what it promises."""
    assert found.gain_low <= found.gain <= found.gain_high
    scale = max(abs(found.gain), 1e-3 * np.abs(mdp.rewards[mdp.available]).max())
    assert found.gain_high - found.gain_low <= tolerance * (1 + 1e-6) * scale
    own = evaluate(mdp, found.policy)
    off = own.stationary_error * np.abs(mdp.rewards[mdp.available]).max()
    assert own.gain >= found.gain_low - off
    for name, cost in costs.items():
        rate = float(own.stationary @ (own.policy * cost).sum(1))
        size = own.stationary_error * np.abs(cost).max()
        off = 1e-9 * np.abs(cost).max() + size + rounding(4, abs(found.limits.get(name, 0.0)))
        assert rate == pytest.approx(found.cost_rates[name], abs=off)
        if name in found.limits:
            assert rate <= found.limits[name] + found.excess[name] + size
            assert found.multipliers[name] >= 0
    for s, chosen in found.randomised.items():
        assert chosen == {a: p for a, p in enumerate(found.policy[s]) if p > 0} and len(chosen) > 1


@st.composite
def limited(draw: st.DrawFn) -> tuple[MDP, dict[str, Any], dict[str, float], str]:
    mdp = draw(weakly_communicating(5))
    random = np.random.default_rng(draw(seeds))
    names = ["first", "second"][: draw(st.integers(1, 2))]
    whole = draw(st.booleans())
    draw_costs = (lambda n: random.integers(0, 3, n).astype(float)) if whole else random.normal
    costs = {
        name: np.where(
            mdp.available,
            draw_costs(mdp.available.shape) if whole else draw_costs(size=mdp.available.shape),
            0.0,
        )
        for name in names
    }
    points = class_rates(mdp, costs)[:, 1:]
    part = random.uniform(-0.1, 1.0, len(names))
    limits = points.min(0) + part * np.ptp(points, axis=0) + 1e-3
    return (
        mdp,
        costs,
        dict(zip(names, limits.tolist(), strict=True)),
        draw(st.sampled_from(METHODS)),
    )


@examples
@given(limited())
def test_all_policies_enumerated(case: Any) -> None:
    """Policies may have several recurrent classes, which a stationary policy has to connect."""
    mdp, costs, limits, method = case
    points = class_rates(mdp, costs)
    sizes = [
        np.ptp(cost[mdp.available]) or abs(cost[mdp.available].max()) or 1
        for cost in costs.values()
    ]
    best, violation = best_of(points, np.array(list(limits.values())), np.array(sizes))
    if violation > 1e-9:
        with pytest.raises(InfeasibleLimits, match="no policy keeps ") as caught:
            solve(mdp, method, costs=costs, limits=limits)
        worst = max(
            v / size for v, size in zip(caught.value.violations.values(), sizes, strict=True)
        )
        assert worst == pytest.approx(violation, rel=1e-6)
        return
    found = solve(mdp, method, costs=costs, limits=limits)
    check(mdp, costs, found)
    # LAPACK's solution of a class and HiGHS's tolerance are off by about as much.
    assert found.gain_low - 1e-7 <= best <= found.gain_high + 1e-7
    assert found.excess == dict.fromkeys(limits, 0.0)


def occupation_program(mdp: MDP, costs: dict[str, Any], limits: dict[str, float]) -> Any:
    """Manne's program for dense models, written out: another formulation of the same optimum."""
    states, actions = mdp.available.shape
    kernel = np.asarray(mdp.kernel).reshape(actions, states, states)
    leaves = np.kron(np.eye(states), np.ones(actions))
    enters = kernel.transpose(2, 1, 0).reshape(states, -1)
    return optimize.linprog(
        -mdp.rewards.ravel(),
        A_ub=[costs[name].ravel() for name in limits],
        b_ub=list(limits.values()),
        A_eq=np.r_[leaves - enters, np.ones((1, states * actions))],
        b_eq=np.r_[np.zeros(states), 1],
    )


def garnet_with_costs(seed: int, states: int = 40, count: int = 3) -> tuple[MDP, dict[str, Any]]:
    mdp = garnet(states, 3, 4, seed=seed)
    random = np.random.default_rng(seed)
    return mdp, {f"c{k}": random.random((states, 3)) for k in range(count)}


@every_method
@pytest.mark.parametrize("seed", range(4))
def test_garnets_against_the_program(seed: int, method: str) -> None:
    mdp, costs = garnet_with_costs(seed)
    free = solve(mdp, costs=costs)
    assert free.randomised == {} and free.limits == free.multipliers == {}
    assert free.gain == pytest.approx(solve(mdp).gain, rel=1e-8)
    for count in (1, 2, 3):
        names = list(costs)[:count]
        limits = {name: 0.85 * free.cost_rates[name] for name in names}
        program = occupation_program(mdp, costs, limits)
        found = solve(mdp, method, costs=costs, limits=limits)
        check(mdp, costs, found)
        assert found.method == method
        assert found.gain == pytest.approx(-program.fun, rel=1e-8)
        duals = dict(zip(names, -program.ineqlin.marginals, strict=True))
        assert found.multipliers == pytest.approx(duals, rel=1e-5, abs=1e-6)
        if method == "linear_program" or count == 1:
            # A vertex of the program randomises once for each limit that binds.
            assert len(found.randomised) <= count


@every_method
def test_the_limit_of_large_models_is_for_speed_only(method: str, monkeypatch) -> None:
    """The same by sparse equations, which large models need."""
    monkeypatch.setattr("longrun.exact.tabular.limits.columns.DENSE", 10)
    monkeypatch.setattr(policy_iteration_module, "ELIMINATED", 10)
    mdp = NETWORKS["n-model"](size=12)
    costs = {"customers": np.indices(mdp.shape)[1].ravel()}
    found = solve(mdp, method, costs=costs, limits={"customers": 1.0})
    check(mdp, {"customers": costs["customers"][:, None]}, found)
    assert len(found.randomised) == 1
    monkeypatch.undo()
    again = solve(mdp, method, costs=costs, limits={"customers": 1.0})
    assert found.gain == pytest.approx(again.gain, rel=1e-8)
    assert found.multipliers == pytest.approx(again.multipliers, rel=1e-6)


def test_multipliers_are_the_slope_of_the_gain() -> None:
    mdp, costs = garnet_with_costs(5, count=1)
    limit, step = 0.9 * solve(mdp, costs=costs).cost_rates["c0"], 1e-6
    found = [solve(mdp, costs=costs, limits={"c0": limit + d}) for d in (-step, 0, step)]
    slope = (found[2].gain - found[0].gain) / (2 * step)
    assert found[1].multipliers["c0"] == pytest.approx(slope, rel=1e-5)


def test_a_limit_that_does_not_bind() -> None:
    mdp, costs = garnet_with_costs(6, count=1)
    found = solve(mdp, costs=costs, limits={"c0": 0.9})
    assert found.multipliers == {"c0": 0.0} and found.randomised == {}
    assert (found.policy.argmax(1) == solve(mdp).policy).all()


def test_where_it_randomises_and_between_what() -> None:
    """With 2 actions that pay r and cost c in one state, the answer can be computed by hand."""
    mdp = MDP(np.ones((1, 2, 1)), [[0.0, 1.0]], costs={"effort": [[0.0, 4.0]]})
    found = solve(mdp, limits={"effort": 1.0})
    assert found.gain == pytest.approx(0.25) and found.multipliers == pytest.approx(
        {"effort": 0.25}
    )
    assert found.randomised == {0: pytest.approx({0: 0.75, 1: 0.25})}


def stay_or_move() -> MDP:
    """Two states, in each of which one can stay; only the second one earns, at a cost."""
    moves = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    return MDP(moves, [[0.0, 0.0], [1.0, 0.0]], costs={"stays": [[0.0, 0.0], [1.0, 0.0]]})


@every_method
def test_classes_that_no_optimal_policy_connects(method: str) -> None:
    """No stationary policy attains the optimum of 0.3; one comes as close as the tolerance."""
    mdp = stay_or_move()
    found = solve(mdp, method, limits={"stays": 0.3})
    check(mdp, mdp.costs, found)
    assert found.gain_high == pytest.approx(0.3, abs=1e-12)
    assert found.gain_low < 0.3 and chain_structure(mdp.chain(found.policy)[0]).irreducible


def test_randomised_states_have_their_labels() -> None:
    """As `longrun solve` prints them."""
    held = solve(maintenance(), limits={"serviced": 0.001})
    report = describe(maintenance(), held)
    (place,) = report["randomised"]
    (state,) = held.randomised
    assert place["state"] == [maintenance().labels[state]]


def test_transient_states_lead_to_the_recurrent_ones() -> None:
    mdp = access_control(4)
    rejected = np.zeros(mdp.available.shape)
    rejected[:, 0] = 1
    found = solve(mdp, costs={"rejected": rejected}, limits={"rejected": 0.77})
    check(mdp, {"rejected": rejected}, found)
    assert chain_structure(mdp.chain(found.policy)[0]).unichain


@every_method
def test_a_limit_at_the_least_possible_rate(method: str) -> None:
    """Whether a policy keeps it is a matter of rounding: the excess says how far it may be off."""
    mdp, costs = garnet_with_costs(7, count=1)
    least = -solve(mdp.with_rewards(-costs["c0"])).gain_high
    found = solve(mdp, method, costs=costs, limits={"c0": least})
    assert found.cost_rates["c0"] == pytest.approx(least, abs=1e-9)
    assert found.excess["c0"] < 1e-8


@every_method
def test_infeasible_limits_are_measured(method: str) -> None:
    mdp, costs = garnet_with_costs(8, count=2)
    least = -solve(mdp.with_rewards(-costs["c0"])).gain
    message = rf"no policy keeps c0 <= 0.01: its least average is {least:.6g}$"
    with pytest.raises(InfeasibleLimits, match=message) as caught:
        solve(mdp, method, costs=costs, limits={"c0": 0.01})
    assert caught.value.violations == {"c0": pytest.approx(least - 0.01, rel=1e-8)}
    assert "\n" not in str(caught.value)
    together = "no policy keeps c0, c1 together, though each alone can be kept; the closest has c0 "
    with pytest.raises(InfeasibleLimits, match=together) as caught:
        solve(mdp, method, costs=costs, limits={"c0": least * 1.01, "c1": 0.36})
    assert (
        set(caught.value.cost_rates) == {"c0", "c1"} and min(caught.value.violations.values()) > 0
    )


@every_method
def test_infeasible_limits_are_named(method: str) -> None:
    """Of three, only the one that no policy keeps; a rounding error is not shown."""
    mdp = access_control()
    message = r"^no policy keeps busy <= -1: its least average is 0$"
    with pytest.raises(InfeasibleLimits, match=message) as caught:
        solve(mdp, method, limits={"busy": -1.0})
    assert caught.value.violations == {"busy": pytest.approx(1)}
    limits = {"rejected": 0.9, "busy": -1.0, "rejected_1": 0.25}
    with pytest.raises(InfeasibleLimits, match=message):
        solve(mdp, method, limits=limits)
    both = r"^no policy keeps busy <= -1: its least average is 0; rejected <= -2: its least av"
    with pytest.raises(InfeasibleLimits, match=both):
        solve(mdp, method, limits={"busy": -1.0, "rejected": -2.0})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"limits": {"c": 1.0}}, "limits name 'c', which is no cost; there are stays"),
        (
            {"costs": {}, "limits": {"c": 1.0}},
            "limits name 'c', which is no cost; the model has none; give costs",
        ),
        ({"limits": {"stays": float("nan")}}, "limit stays=nan is not a finite number"),
        ({"limits": {"stays": "1"}}, "limit stays='1' is not a finite number"),
        ({"limits": {"stays": None}}, "limit stays=None is not a finite number"),
        (
            {"costs": {"c": [[1.0]]}},
            r"cost 'c' has shape \(1, 1\); give \(2, 2\), \[states, actions",
        ),
        ({"costs": {"c": [1.0, np.inf]}}, "cost 'c' of state 1, action 0 is inf; make it finite"),
        (
            {"method": "value_iteration", "limits": {"stays": 1.0}},
            "unknown method under limits 'value_iteration'; did you mean policy_iteration?",
        ),
    ],
)
def test_wrong_input(arguments: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        solve(stay_or_move(), **arguments)


def test_too_few_iterations() -> None:
    mdp, costs = garnet_with_costs(9, count=1)
    limit = 0.8 * solve(mdp, costs=costs).cost_rates["c0"]
    with pytest.raises(NoConvergence, match="raise max_iterations") as caught:
        solve(mdp, "policy_iteration", costs=costs, limits={"c0": limit}, max_iterations=2)
    best = solve(mdp, costs=costs, limits={"c0": limit}).gain
    assert caught.value.solution.gain_low < best < caught.value.solution.gain_high
    assert caught.value.solution.cost_rates["c0"] <= limit


def test_a_program_that_highs_cannot_solve(monkeypatch) -> None:
    """As in slow models: the default does without, and who asks for it is told."""
    failed = optimize.OptimizeResult(status=4, success=False, message="numerical difficulties")
    real = optimize.linprog
    monkeypatch.setattr(
        "scipy.optimize.linprog",
        lambda *args, **keys: (
            failed if "b_eq" in keys and len(keys["b_eq"]) > 1 else real(*args, **keys)
        ),
    )
    mdp, costs = garnet_with_costs(9, count=1)
    assert solve(mdp, costs=costs, limits={"c0": 0.5}).method == "policy_iteration"
    with pytest.raises(
        NoConvergence, match="numerical difficulties; take method='policy_iteration'"
    ):
        solve(mdp, "linear_program", costs=costs, limits={"c0": 0.5})


def test_the_linear_program_is_for_small_models(monkeypatch) -> None:
    mdp, costs = garnet_with_costs(9, count=1)
    for most, method in ((40, "linear_program"), (39, "policy_iteration")):
        monkeypatch.setattr(limited_solver, "LINEAR_PROGRAM", most)
        assert solve(mdp, costs=costs, limits={"c0": 0.5}).method == method


@pytest.mark.parametrize(
    ("mdp", "gain"),
    [
        (
            inventory(),
            lambda c: -(10 * c["orders"] + 2 * c["ordered"] + c["left"] + 10 * c["lost"]),
        ),
        (
            inventory(),
            lambda c: -(10 * c["orders"] + 2 * (5 - c["lost"]) + c["left"] + 10 * c["lost"]),
        ),
        (admission(), lambda c: 5 * (0.8 - c["rejected"]) - c["customers"]),
        (maintenance(), lambda c: 1 - c["broken"] - 41 * c["serviced"]),
        (
            access_control(3, priorities=(1.0, 2.0)),
            lambda c: 1 * (0.5 - c["rejected_1"]) + 2 * (0.5 - c["rejected_2"]),
        ),
        (NETWORKS["n-model"](size=6), lambda c: -3 * c["customers_1"] - c["customers_2"]),
        (NETWORKS["tandem"](size=6), lambda c: -c["customers_1"] - 3 * c["customers_2"]),
    ],
)
def test_costs_of_models_add_up_to_the_gain(mdp: MDP, gain: Any) -> None:
    """Under the optimal policy and under one that a limit made."""
    name, free = list(mdp.costs)[-1], solve(mdp, limits={})
    for found in (free, solve(mdp, limits={name: free.cost_rates[name] * 0.99 + 1e-3})):
        assert gain(found.cost_rates) == pytest.approx(found.gain, rel=1e-7)


def test_costs_of_the_other_models() -> None:
    busy = solve(access_control(3), limits={}).cost_rates
    accepted = 1 - busy["rejected"]
    assert 0.06 * busy["busy"] == pytest.approx(accepted)  # as many come as go
    assert busy["rejected"] == pytest.approx(sum(busy[f"rejected_{k}"] for k in range(1, 5)))
    assert solve(riverswim(), limits={}).cost_rates == {"effort": pytest.approx(1)}
    machine = machine_replacement(wear_probability=0.0, failure_probability=0.02)
    # Machines of wear 0 are replaced when they have failed, once in 50 periods.
    worn = solve(machine, limits={}).cost_rates
    assert worn["failed"] == pytest.approx(0.02) == worn["replaced"]
    lake = from_gymnasium("FrozenLake-v1", is_slippery=False)
    assert solve(lake, limits={}).cost_rates == {"terminated": pytest.approx(1 / 6)}
    part, states = reachable(lake)
    assert (part.costs["terminated"] == lake.costs["terminated"][states]).all()
    # The share of arrivals that find an M/M/1/4 queue full.
    load = 0.6 / 1.2
    full = load**4 * (1 - load) / (1 - load**5)
    single = NETWORKS["tandem"](service_rates=(1.2,), holding_costs=(1.0,), size=4)
    assert solve(single, limits={}).cost_rates["blocked"] == pytest.approx(0.6 * full)
    assert 0 <= garnet().costs["cost"].min() <= garnet().costs["cost"].max() <= 1


def test_weights_of_a_mixture_are_exact_where_highs_is_not(monkeypatch) -> None:
    """A limit that binds is kept to rounding; one that is farther than HiGHS's tolerance is not."""
    no_policy = np.zeros(1, int)
    columns = [
        Column(no_policy, np.array(values), np.zeros(3), None)
        for values in ([0.0, -1.0, -1.0], [1.0, 1.0, 0.5])
    ]
    off = np.array([0.5 + 9e-11, 0.5 - 9e-11])  # 0.5 is exact: the first limit binds
    monkeypatch.setattr(
        "longrun.exact.tabular.limits.columns.optimize.linprog",
        lambda *_, **__: optimize.OptimizeResult(
            status=0, x=off, ineqlin=optimize.OptimizeResult(marginals=np.array([-0.5, 0.0]))
        ),
    )
    found = best_mixture(columns, np.zeros(2))
    assert found is not None
    assert found.weights.tolist() == pytest.approx([0.5, 0.5], rel=1e-15)
    assert found.value == pytest.approx(0.5, rel=1e-15)
