"""The models against rows worked out by hand, and against known gains."""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections import Counter
from typing import Any

import numpy as np
import pytest

from longrun.exact.tabular.laws import distinct_numbers, stock_after_poisson_demand
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.models import (
    MODELS,
    access_control,
    admission,
    garnet,
    inventory,
    machine_replacement,
    maintenance,
    riverswim,
)
from longrun.tabular import evaluate, solve
from reference_networks import criss_cross, n_model, tandem


def law(mdp: MDP, state: Any, action: int) -> dict[Any, float]:
    """Successor: probability; states as indices, or as positions in the box of the states."""
    number = np.ravel_multi_index(state, mdp.shape) if isinstance(state, tuple) else state
    row = mdp.kernel[[action * mdp.num_states + number]]
    row = (row.toarray() if mdp.is_sparse else row)[0]
    found = np.flatnonzero(row)
    if len(mdp.shape) == 1:
        return {int(j): float(row[j]) for j in found}
    return {tuple(int(i) for i in np.unravel_index(j, mdp.shape)): float(row[j]) for j in found}


def solved(mdp: MDP, tolerance: float = 1e-9) -> tuple[float, Any]:
    """Optimal gain and actions by relative value iteration; half steps make chains aperiodic."""
    values = np.zeros(mdp.num_states)
    for _ in range(100_000):
        change = mdp.lookahead(values).max(1) - values
        if np.ptp(change) < tolerance:
            return (change.max() + change.min()) / 2, mdp.lookahead(values).argmax(1)
        values += (change - change[0]) / 2
    raise AssertionError("relative value iteration did not converge")


# --- all of them -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_distributions(name: str) -> None:
    mdp = MODELS[name]()
    np.testing.assert_allclose(mdp.kernel.sum(1), mdp.available.T.ravel(), atol=1e-14)
    assert mdp.name and mdp.initial.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", MODELS)
def test_the_command_line_can_read_the_builder(name: str) -> None:
    builder = MODELS[name]
    hints = typing.get_type_hints(builder)
    assert name == builder.__name__.replace("_", "-")
    for parameter in inspect.signature(builder).parameters.values():
        assert hints[parameter.name] in (int, float, str, tuple[float, ...])
        assert parameter.default is not inspect.Parameter.empty
    assert re.fullmatch(r"\S.{10,90}\.", (builder.__doc__ or "").splitlines()[0])


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("garnet", {"states": 0}, "states=0 is too small; give 1 or more"),
        ("garnet", {"branching": 0}, "branching=0 is too small; give 1 or more"),
        ("garnet", {"branching": 21}, "branching=21 exceeds states=20; give 20 or less"),
        ("garnet", {"rewards": "other"}, "unknown rewards 'other'; valid: normal, uniform"),
        ("garnet", {"seed": -1}, "seed=-1 is too small; give 0 or more"),
        ("riverswim", {"length": 1}, "length=1 is too small; give 2 or more"),
        ("access-control", {"servers": 0}, "servers=0 is too small; give 1 or more"),
        ("access-control", {"free_probability": 1.5}, "free_probability=1.5 is not a probability"),
        ("access-control", {"priorities": ()}, "priorities=() is empty; give at least one reward"),
        ("access-control", {"priorities": (1.0, math.inf)}, "priorities[1]=inf is not finite"),
        ("machine-replacement", {"levels": 0}, "levels=0 is too small; give 1 or more"),
        ("machine-replacement", {"wear_probability": -0.1}, "wear_probability=-0.1 is not a prob"),
        (
            "machine-replacement",
            {"failure_probability": math.nan},
            "failure_probability=nan is not",
        ),
        ("machine-replacement", {"failure_cost": math.nan}, "failure_cost=nan is not finite"),
        ("maintenance", {"levels": 0}, "levels=0 is too small; give 1 or more"),
        ("maintenance", {"wear_probability": 2.0}, "wear_probability=2.0 is not a probability"),
        ("maintenance", {"failure_probability": -1.0}, "failure_probability=-1.0 is not a prob"),
        ("maintenance", {"service_time": 0.5}, "service_time=0.5 is less than a step or infinite"),
        ("maintenance", {"repair_time": math.inf}, "repair_time=inf is less than a step or inf"),
        ("inventory", {"capacity": 0}, "capacity=0 is too small; give 1 or more"),
        (
            "inventory",
            {"mean_demand": 0.0},
            "mean_demand=0.0 is not positive; give a finite number",
        ),
        ("inventory", {"holding_cost": -1.0}, "holding_cost=-1.0 is negative or infinite; give 0"),
        ("admission", {"service_rate": 0.0}, "service_rate=0.0 is not positive; give a finite"),
        ("admission", {"size": 0}, "size=0 is too small; give 1 or more"),
    ],
)
def test_parameters_that_are_refused(name: str, parameters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        MODELS[name](**parameters)


# --- garnet ----------------------------------------------------------------------------------


@pytest.mark.parametrize("states", [30, 300])
def test_garnet_has_the_requested_number_of_successors(states: int) -> None:
    mdp = garnet(states=states, actions=2, branching=4, seed=1)
    kernel = mdp.kernel.toarray() if mdp.is_sparse else mdp.kernel
    assert mdp.is_sparse == (states > 200)
    assert ((kernel > 0).sum(1) == 4).all()
    assert (kernel > 0).any(0).all(), "every state is some state's successor"


def test_garnet_is_determined_by_its_seed() -> None:
    one, same, other = garnet(seed=3), garnet(seed=3), garnet(seed=4)
    np.testing.assert_array_equal(one.kernel, same.kernel)
    np.testing.assert_array_equal(one.rewards, same.rewards)
    assert (one.kernel != other.kernel).any()
    assert (one.rewards < 0).any() and (garnet(rewards="uniform").rewards >= 0).all()


def test_a_garnet_may_be_deterministic_or_full() -> None:
    assert (garnet(states=5, branching=1).kernel.max(1) == 1).all()
    assert (garnet(states=5, branching=5).kernel > 0).all()


def test_every_set_of_successors_is_equally_likely() -> None:
    drawn = distinct_numbers(np.random.default_rng(0), 60_000, 2, 4)
    counts = Counter(tuple(sorted(row)) for row in drawn.tolist())
    assert sorted(counts) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert all(abs(count - 10_000) < 5 * math.sqrt(10_000 * 5 / 6) for count in counts.values())


def test_parts_of_a_garnets_probabilities_are_those_of_uniform_cuts() -> None:
    kernel = garnet(states=2000, actions=3, branching=3, seed=0).kernel
    # A part of three is Beta(1, 2): mean 1/3, variance 1/18.
    assert kernel.data.mean() == pytest.approx(1 / 3)
    assert kernel.data.var() == pytest.approx(1 / 18, rel=0.03)


# --- RiverSwim and access control ------------------------------------------------------------


def test_riverswim_rows() -> None:
    mdp = riverswim()
    assert [law(mdp, s, 0) for s in (0, 1, 5)] == [{0: 1}, {0: 1}, {4: 1}]
    assert law(mdp, 0, 1) == {0: 0.4, 1: 0.6}
    assert law(mdp, 3, 1) == pytest.approx({2: 0.05, 3: 0.6, 4: 0.35})
    assert law(mdp, 5, 1) == {4: 0.4, 5: 0.6}
    expected = np.zeros((6, 2))
    expected[0, 0], expected[5, 1] = 0.005, 1
    np.testing.assert_array_equal(mdp.rewards, expected)
    assert riverswim(length=2).num_states == 2


def test_riverswim_gain() -> None:
    gain, policy = solved(riverswim())
    assert gain == pytest.approx(0.428622, abs=5e-7) and policy.tolist() == [1] * 6


def test_access_control_rows() -> None:
    mdp = access_control(servers=1, free_probability=0.25, priorities=(1.0, 3.0))
    busy = {(0, 0): 0.375, (0, 1): 0.375, (1, 0): 0.125, (1, 1): 0.125}
    assert law(mdp, (0, 0), 0) == busy
    assert law(mdp, (1, 1), 1) == busy, "the server just taken may become free at once"
    assert law(mdp, (1, 0), 0) == {(1, 0): 0.5, (1, 1): 0.5}
    assert mdp.rewards.tolist() == [[0, -np.inf], [0, -np.inf], [0, 1], [0, 3]]
    assert mdp.available.tolist() == [[True, False]] * 2 + [[True, True]] * 2
    assert mdp.initial.tolist() == [0, 0, 0.5, 0.5]


def test_access_control_row_with_two_busy_servers() -> None:
    mdp = access_control(servers=3, free_probability=0.5, priorities=(1.0,))
    assert law(mdp, (1, 0), 0) == {(1, 0): 0.25, (2, 0): 0.5, (3, 0): 0.25}


def test_access_control_gain() -> None:
    gain, policy = solved(access_control())
    assert gain == pytest.approx(2.747642, abs=5e-7)
    accepted = policy.reshape(11, 4)
    assert (np.diff(accepted[1:], axis=1) >= 0).all(), "who pays more is never worse off"
    assert (np.diff(accepted[1:], axis=0) >= 0).all(), "nor anyone with more free servers"


# --- maintenance -----------------------------------------------------------------------------


def test_maintenance_rows() -> None:
    mdp = maintenance(2, 0.25, 0.125, service_time=4, repair_time=8)
    service, broken = 3, 4
    assert law(mdp, 0, 0) == {0: 0.75, 1: 0.25} and law(mdp, 1, 0) == {1: 0.75, 2: 0.25}
    assert law(mdp, 2, 0) == {2: 0.875, broken: 0.125}, "a worn machine breaks, others wear"
    assert [law(mdp, wear, 1) for wear in range(3)] == [{service: 1}] * 3
    assert law(mdp, service, 0) == {0: 0.25, service: 0.75}
    assert law(mdp, broken, 0) == {0: 0.125, broken: 0.875}
    assert mdp.rewards[:3].tolist() == [[1, 0]] * 3
    assert mdp.rewards[3:].tolist() == [[0, -np.inf]] * 2
    assert mdp.initial.tolist() == [1, 0, 0, 0, 0]


def never_serviced(mdp: MDP) -> Any:
    return np.zeros(mdp.num_states, int)


def serviced_when_worn(mdp: MDP) -> Any:
    return np.eye(1, mdp.num_states, mdp.num_states - 3, dtype=int)[0]


def test_maintenance_gains_are_those_of_renewal_cycles() -> None:
    """100 steps of wear, then the decision and 40 steps of service; or 250 more and a repair."""
    mdp = maintenance()
    best = solve(mdp)
    assert best.policy.tolist() == serviced_when_worn(mdp).tolist()
    assert best.gain == pytest.approx(100 / 141)
    assert best.gain_low <= 100 / 141 <= best.gain_high
    assert evaluate(mdp, never_serviced(mdp)).gain == pytest.approx(350 / 3350)


@pytest.mark.parametrize(
    ("discount", "optimal"),
    [(0.9, never_serviced), (0.99, never_serviced), (0.999, serviced_when_worn)],
)
def test_the_optimal_policy_of_maintenance_with_a_discount(discount: float, optimal: Any) -> None:
    """The policy is optimal: no action has a positive advantage."""
    mdp = maintenance()
    found = evaluate(mdp, optimal(mdp), discount)
    others = found.advantage[found.policy == 0]
    assert others.max() < -0.01
    np.testing.assert_allclose(found.advantage[found.policy == 1], 0, atol=1e-12)


# --- machine replacement, inventory, admission -----------------------------------------------


def test_machine_replacement_rows() -> None:
    mdp = machine_replacement(
        levels=2,
        wear_probability=0.5,
        failure_probability=0.25,
        operating_cost=1,
        replacement_cost=4,
        failure_cost=8,
    )
    new = {0: 0.375, 1: 0.375, 2: 0.25}
    assert law(mdp, 0, 0) == law(mdp, 1, 1) == law(mdp, 2, 1) == new
    assert law(mdp, 1, 0) == {1: 0.375, 2: 0.625}
    assert law(mdp, 2, 0) == {} and not mdp.available[2, 0]
    assert mdp.rewards.tolist() == [[0, -4], [-1, -4], [-np.inf, -12]]
    assert mdp.cost


def test_machine_replacement_has_a_control_limit() -> None:
    _, policy = solved(machine_replacement())
    assert policy.tolist() == sorted(policy) and 0 < policy.sum() < 11


def test_inventory_rows() -> None:
    mean = math.log(2)  # P(D = 0) = 1/2
    mdp = inventory(1, mean, fixed_cost=3, unit_cost=2, holding_cost=1, lost_sale_cost=4)
    assert law(mdp, 0, 0) == {0: 1}
    assert law(mdp, 0, 1) == law(mdp, 1, 0) == pytest.approx({0: 0.5, 1: 0.5})
    assert mdp.available.tolist() == [[True, True], [True, False]]
    lost = mean - 0.5  # E max(D - 1, 0) = E D - P(D >= 1)
    period = 0.5 + 4 * lost
    expected = [[-4 * mean, -5 - period], [-period, -np.inf]]
    np.testing.assert_allclose(mdp.rewards, expected, rtol=1e-12)


def test_stock_after_demand_against_the_long_sum() -> None:
    mean, most = 5.0, 20
    laws, lost = stock_after_poisson_demand(most, mean)
    for stock in (0, 1, 7, most):
        left, missed = np.zeros(most + 1), 0.0
        for demand in range(100):
            probability = math.exp(-mean) * mean**demand / math.factorial(demand)
            left[max(stock - demand, 0)] += probability
            missed += probability * max(demand - stock, 0)
        np.testing.assert_allclose(laws[stock], left, atol=1e-14)
        assert lost[stock] == pytest.approx(missed, abs=1e-13)


def test_inventory_orders_up_to_one_level_from_below_another() -> None:
    _, orders = solved(inventory())
    reorder = int((orders > 0).sum())
    assert 0 < reorder < 20
    assert len(set((orders + np.arange(21))[:reorder])) == 1 and not orders[reorder:].any()


def test_admission_rows() -> None:
    mdp = admission(arrival_rate=1, service_rate=3, reward=2, holding_cost=0.5, size=2)
    assert law(mdp, 0, 0) == {0: 1} and law(mdp, 0, 1) == {0: 0.75, 1: 0.25}
    assert law(mdp, 1, 0) == {0: 0.75, 1: 0.25} and law(mdp, 1, 1) == {0: 0.75, 2: 0.25}
    assert law(mdp, 2, 0) == {1: 0.75, 2: 0.25} and law(mdp, 2, 1) == {}
    assert mdp.rewards.tolist() == [[0, 2], [-0.5, 1.5], [-1, -np.inf]]


@pytest.mark.parametrize(("arrivals", "reward"), [(0.8, 5.0), (0.5, 20.0), (1.5, 12.0), (0.8, 0.5)])
def test_admission_has_naors_threshold(arrivals: float, reward: float) -> None:
    def gain_of_threshold(most: int) -> float:
        """Closed form of M/M/1 with at most so many customers, service rate and cost 1."""
        weights = arrivals ** np.arange(most + 1)
        probabilities = weights / weights.sum()
        return arrivals * reward * (1 - probabilities[-1]) - probabilities @ np.arange(most + 1)

    gains = [gain_of_threshold(most) for most in range(21)]
    gain, policy = solved(admission(arrival_rate=arrivals, reward=reward))
    assert gain == pytest.approx(max(gains), abs=1e-8)
    assert policy.tolist() == [1] * int(np.argmax(gains)) + [0] * (21 - int(np.argmax(gains)))


# --- queueing networks: lists of events ------------------------------------------------------


def test_criss_cross_rows() -> None:
    mdp = criss_cross("BH", size=2)  # rates .9, .9, 2 (or 2, or none), 1: 4.8 in all
    rates = {(2, 1, 1): 0.9, (1, 1, 2): 0.9, (1, 0, 1): 1.0}
    for action, served in enumerate([(1, 1, 1), (0, 2, 1), (1, 1, 0)]):
        expected = {state: rate / 4.8 for state, rate in (rates | {served: 2.0}).items()}
        assert law(mdp, (1, 1, 1), action) == pytest.approx(expected)
    assert law(mdp, (2, 2, 2), 1) == pytest.approx({(2, 1, 2): 1 / 4.8, (2, 2, 2): 3.8 / 4.8})
    assert mdp.rewards.reshape(3, 3, 3, 3)[1, 2, 0].tolist() == [-3] * 3


def test_criss_cross_gain_in_light_traffic() -> None:
    gain, _ = solved(criss_cross("IL", size=10), tolerance=1e-6)
    assert -gain == pytest.approx(0.671, abs=5e-4)


def test_tandem_rows() -> None:
    mdp = tandem(0.5, service_rates=(1.0, 0.625), holding_costs=(1, 3), size=2)  # 2.125 in all
    arrival, transfer, service = 0.5 / 2.125, 1 / 2.125, 0.625 / 2.125
    moves = {(2, 1): arrival, (1, 0): service}
    assert law(mdp, (1, 1), 0) == pytest.approx(moves | {(1, 1): transfer})
    assert law(mdp, (1, 1), 1) == pytest.approx(moves | {(0, 2): transfer})
    assert law(mdp, (2, 2), 1) == pytest.approx({(2, 1): service, (2, 2): 1 - service})
    assert law(mdp, (0, 0), 1) == pytest.approx({(1, 0): arrival, (0, 0): 1 - arrival})
    assert mdp.rewards.reshape(3, 3, 2)[2, 1].tolist() == [-5, -5]


def test_tandem_has_a_switching_curve() -> None:
    _, policy = solved(tandem(size=14), tolerance=1e-7)
    serves = policy.reshape(15, 15)[1:8, :8]  # away from the edge of the box
    curve = serves.sum(1)
    assert (np.diff(serves, axis=1) <= 0).all(), "a longer second queue only speaks for idling"
    assert (np.diff(curve) >= 0).all() and curve[0] < curve[-1] < 8


def test_n_model_rows() -> None:
    # 4 in all: arrivals 1, server 1 at 1, server 2 at 2 for class 2 (and 1 for class 1).
    mdp = n_model(1.0, (0.5, 0.5), service_rates=(1, 1, 2), holding_costs=(3, 1), size=3)
    arrivals = {(3, 1): 0.125, (2, 2): 0.125}
    assert law(mdp, (2, 1), 0) == arrivals | {(1, 1): 0.5, (2, 1): 0.25}
    assert law(mdp, (2, 1), 1) == arrivals | {(1, 1): 0.25, (2, 0): 0.5}
    alone = {(2, 1): 0.125, (1, 2): 0.125, (0, 1): 0.25, (1, 1): 0.5}
    assert law(mdp, (1, 1), 0) == alone, "server 2 cannot help with the customer of server 1"
    assert mdp.rewards.reshape(4, 4, 2)[2, 1].tolist() == [-7, -7]


def test_n_model_helps_above_a_threshold() -> None:
    _, policy = solved(n_model(load=0.7, size=16), tolerance=1e-6)
    helps = policy.reshape(17, 17)[:10, 1:10] == 0
    assert (np.diff(helps.astype(int), axis=0) >= 0).all()
    assert not helps[1].any() and helps[-1].all()
