"""Maps of learned policies: the tables, the numbers in the title, the figure, wrong input."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.axes import Axes
from probes import Choice

from longrun import APO
from longrun.base.errors import InputError
from longrun.cli import main
from longrun.exact.queueing.network import Activity, Network
from longrun.exact.tabular.models import riverswim
from longrun.lab.policy_map import exact_comparison
from longrun.lab.policy_map.exact_comparison import (
    SAME,
    box_size,
    compare_policies,
    effects,
    exact_model,
    learned_policy,
    require_mappable,
)
from longrun.lab.policy_map.picture import (
    least_important,
    places_of_slices,
    policy_map,
    slices_of,
)
from longrun.learning.envs.native.control import AccessControl, Inventory, Maintenance
from longrun.learning.envs.queueing.environment import (
    QueueingEnv,
    criss_cross,
    n_model,
    six_class,
    tandem,
)
from longrun.tabular import MDP, evaluate, solve


@cache
def fresh(env: Any) -> APO:
    """An agent that has not been trained."""
    return APO(env, hidden_sizes=(8,))


def indifferent(env: Any, size: int | None = None) -> np.ndarray:
    """The table of a network without weights: of equal logits the first allowed one is taken."""
    agent = fresh(env)
    state = agent.state
    policy = jax.tree.map(jnp.zeros_like, state.params.policy)
    zeros = state._replace(params=state.params._replace(policy=policy))
    return learned_policy(env, fresh(env).config, zeros, size)


def saved(folder: Path, env: Any) -> str:
    fresh(env).save(folder)
    return str(folder)


# The table.


def test_equal_logits_serve_the_first_class_that_waits() -> None:
    first, second, third = np.indices((4, 4, 4))
    blocked = second == 3  # there is no room for those whom class 1 becomes
    expected = ((first == 0) | blocked) & (third > 0)
    assert indifferent(criss_cross("BM"), 3).tolist() == expected.ravel().astype(int).tolist()


def test_several_servers_decide_jointly() -> None:
    """Serve where a customer waits, else idle, the second choice; station 1 counts twice."""
    first, second = np.indices((5, 5))
    expected = 2 * (first == 0) + (second == 0)
    assert indifferent(tandem(), 4).tolist() == expected.ravel().tolist()


def test_a_customer_in_service_is_not_served_by_another_server() -> None:
    """Server 2 of the N-model helps with the second customer of class 1, not with the first."""
    table = indifferent(n_model(), 2).reshape(3, 3)
    assert table.tolist() == [[0, 1, 1], [0, 1, 1], [0, 0, 0]]


def test_tables_of_finite_models() -> None:
    assert indifferent(AccessControl(3)).tolist() == [0] * 16
    assert indifferent(Inventory(5)).tolist() == [0] * 6
    assert indifferent(Maintenance()).tolist() == [0] * 8


def test_a_table_is_what_the_agent_predicts() -> None:
    agent = fresh("jax:criss-cross")
    env: Any = agent.loop.env
    table = learned_policy(env, agent.config, agent.state, 3).reshape(4, 4, 4)
    assert 0 < table.mean() < 1
    for place in ((1, 0, 1), (3, 2, 1), (2, 2, 3), (0, 1, 2)):
        row = np.asarray(env.observation(jnp.array(place)))
        seen = {"action_mask": row[:2].astype(np.int8), "observation": row[2:]}
        assert agent.predict(seen)[0] == table[place]


# The numbers.


def test_the_cost_of_a_static_priority() -> None:
    """Class 1 first: its output is Poisson, both stations are M/M/1 queues at load 0.6."""
    env = criss_cross("BM")
    found = compare_policies(exact_model(env, 26), indifferent(env, 26))
    assert -found.learned_gain == pytest.approx(2 * 0.6 / 0.4, rel=1e-3)
    assert -found.optimal_gain == pytest.approx(2.828829, rel=1e-4)
    assert found.gap == pytest.approx(100 * (3 / 2.828829 - 1), abs=0.1)
    assert str(found) == "average cost 3.0000 learned, 2.8288 optimal: a gap of 6.05 %"


@pytest.mark.parametrize(
    ("env", "size"), [(criss_cross("BL"), 6), (tandem(), 8), (AccessControl(), None)]
)
def test_the_optimal_policy_has_no_gap(env: Any, size: int | None) -> None:
    mdp = exact_model(env, size)
    found = compare_policies(mdp, solve(mdp).policy, boxed=size is not None)
    assert found.gap == pytest.approx(0, abs=1e-5)
    assert (found.learned == found.optimal).all()
    np.testing.assert_array_equal(found.learned_law, found.optimal_law)


def test_rewards_and_costs_of_doing_nothing() -> None:
    nobody = compare_policies(exact_model(AccessControl(3)), np.zeros(16, int), boxed=False)
    assert (nobody.learned_gain, nobody.gap) == (0, 100)
    assert str(nobody).startswith("average reward 0.0000 learned, ")
    nothing = compare_policies(exact_model(Inventory()), np.zeros(21, int), boxed=False)
    assert nothing.learned_gain == pytest.approx(-50)  # five sales lost a period, at 10 each
    assert nothing.at_walls == nobody.at_walls == 0


def test_states_without_a_decision_are_not_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A machine in service, or broken."""
    drawn: list[list[int]] = []
    plot = Axes.plot

    def noted(axis: Axes, places: np.ndarray, *rest: Any, **style: Any) -> Any:
        drawn.append(places.tolist())
        return plot(axis, places, *rest, **style)

    monkeypatch.setattr(Axes, "plot", noted)
    mdp = exact_model(Maintenance(levels=2))
    policy_map(compare_policies(mdp, solve(mdp).policy, boxed=False), tmp_path / "map.png")
    assert drawn == [[0, 1, 2]] * 2


def test_a_policy_that_lets_a_queue_grow_stays_at_the_boundary() -> None:
    """It starts at the model's initial state, not in other states that it would never leave."""
    found = compare_policies(exact_model(tandem(), 7), np.full(64, 3))
    assert -found.learned_gain == pytest.approx(7) and found.at_walls == pytest.approx(1)
    mdp = exact_model(criss_cross("BM"), 4)
    law = evaluate(mdp, solve(mdp).policy).stationary.reshape(5, 5, 5)
    walls = compare_policies(mdp, solve(mdp).policy).at_walls
    assert walls == pytest.approx(1 - law[:4, :4, :4].sum()) and walls > 0.1


def test_a_policy_with_two_recurrent_classes_is_evaluated_from_the_start() -> None:
    mdp = walk_to_either_end()
    found = compare_policies(mdp, np.zeros(4, int), boxed=False)
    assert found.learned_gain == pytest.approx(4) and found.optimal_gain == pytest.approx(10)
    assert [each.probability for each in found.classes] == pytest.approx([2 / 3, 1 / 3])
    assert [each.gain for each in found.classes] == [1, 10]
    assert found.learned_law == pytest.approx([2 / 3, 0, 0, 1 / 3])


def walk_to_either_end() -> MDP:
    """Action 0 walks until an end is reached and stays; action 1 goes round."""
    walk = [[1, 0, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0, 0, 0, 1]]
    up = np.eye(4)[[1, 2, 3, 0]]
    rewards = np.array([[1, 0], [9, 0], [9, 0], [10, 0]])
    return MDP(np.stack([walk, up], axis=1), rewards, initial=[0, 1, 0, 0])


def test_an_invalid_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="uses action 0, which is not available"):
        compare_policies(exact_model(criss_cross("BM"), 2), np.zeros(27, int))


# The figure.


def test_actions_with_the_same_effect_count_as_one() -> None:
    mdp = exact_model(tandem(), 3)
    same = effects(mdp).reshape(4, 4, 4)
    assert same[0, 0].tolist() == [-1, -1, -1, 3]
    assert same[2, 1].tolist() == [0, 1, 2, 3]
    assert same[2, 3].tolist() == [
        2,
        3,
        2,
        3,
    ]  # the next queue is full: server 1 is blocked
    found = compare_policies(mdp, solve(mdp).policy)
    assert np.argwhere(found.undecided.reshape(4, 4)).tolist() == [[0, 0]]


@pytest.mark.parametrize(("off", "same"), [(0.9, True), (1.1, False)])
def test_actions_that_differ_by_rounding_are_the_same(off: float, same: bool) -> None:
    """Moving `off` of SAME from one successor to another is half in each, and so is a reward."""
    moved, paid = off * SAME / 2, off * SAME
    stay, other = [[0.5, 0.5], [0.5, 0.5]], [[0.5 + moved, 0.5 - moved], [0.5, 0.5]]
    mdp = MDP(np.stack([stay, other], axis=1), [[0.0, 0.0], [0.0, paid]])
    assert effects(mdp).tolist() == [[1 if same else 0, 1], [1 if same else 0, 1]]


def test_states_without_a_decision_are_left_out() -> None:
    mdp = exact_model(criss_cross("BM"), 3)
    first, _, third = np.indices(mdp.shape)
    found = compare_policies(mdp, solve(mdp).policy)
    np.testing.assert_array_equal(found.undecided.reshape(mdp.shape), (first == 0) | (third == 0))


def test_two_servers_one_of_which_has_no_customers() -> None:
    """Without idling all actions of station 2 are allowed then, and have the same effect."""
    network = Network(
        "pair",
        arrivals=(0.3, 0.3, 0.3, 0.3),
        stations=((Activity(0, 1.0), Activity(1, 1.0)), (Activity(2, 1.0), Activity(3, 1.0))),
        routing=((), (), (), ()),
        holding_costs=(1.0, 1.0, 1.0, 1.0),
    )
    mdp = QueueingEnv(network).exact(1)
    same = effects(mdp).reshape(2, 2, 2, 2, 4)
    assert same[1, 1, 0, 0].tolist() == [1, 1, 3, 3]
    assert same[0, 0, 0, 0].tolist() == [3, 3, 3, 3]
    assert same[1, 1, 0, 1].tolist() == [-1, 1, -1, 3]


def test_slices_are_cut_where_least_changes() -> None:
    places = np.indices((9, 9, 9))
    decided = np.ma.masked_where(places[1] == 0, places[0] > places[2] + (places[1] > 7))
    assert least_important(decided) == 1
    assert places_of_slices(np.moveaxis(decided, 1, 0)) == [1, 2, 4, 8]
    assert places_of_slices(decided[:4]) == [0, 1, 3]


def test_a_map_shows_the_queue_lengths_that_are_visited() -> None:
    mdp = exact_model(criss_cross("IL"), 20)
    slices = slices_of(compare_policies(mdp, solve(mdp).policy))
    assert [each.title for each in slices] == [f"customers of class 3: {k}" for k in (1, 2, 4, 8)]
    assert all(panel.shape == (11, 11) for each in slices for panel in each.policies)
    assert slices[0].sides == (0, 1)


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(
    ("env", "size", "words"),
    [
        (criss_cross("BM"), 4, ["serve class 3", "nothing to decide", "customers of class 2"]),
        (n_model(), 5, ["serve class 2", "not the optimal action"]),
        (tandem(), 5, ["station 1: class 1, station 2: idle"]),
        (AccessControl(3), None, ["accept", "free servers", "pays 1, 2, 4, 8"]),
        (Inventory(5), None, ["order 2", "stock"]),
        (Maintenance(), None, ["service", "wear", "a gap of 85.27 %"]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_pictures(env: Any, size: int | None, words: list[str], tmp_path: Path) -> None:
    out = tmp_path / "new" / "map.svg"
    found = compare_policies(exact_model(env, size), indifferent(env, size), boxed=size is not None)
    policy_map(found, out)
    text = out.read_text()
    for part in (*words, str(found), "learned", "optimal"):
        assert part in text, part


# The command.


@pytest.mark.parametrize("env", ["jax:criss-cross?regime=BL", "jax:n-model?load=0.5"])
def test_the_command(env: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = saved(tmp_path / "run", env), tmp_path / "policy.svg"
    assert main(["map", run, "--size", "12", "--out", str(out)]) == 0
    printed, errors = capsys.readouterr()
    line, *rest = printed.splitlines()
    assert "up to 12 a queue: average cost " in line and " optimal: a gap of " in line
    assert (rest[-1], errors) == (f"wrote {out}", "")
    assert line.partition("a queue: ")[2] in out.read_text(), "the numbers are in the title"


def test_several_recurrent_classes_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = saved(tmp_path / "run", "jax:maintenance")
    monkeypatch.setattr(exact_comparison, "exact_model", lambda *_: walk_to_either_end())
    monkeypatch.setattr(exact_comparison, "learned_policy", lambda *_: np.zeros(4, int))
    assert main(["map", run, "--out", str(tmp_path / "map.png")]) == 0
    line, note, _ = capsys.readouterr().out.splitlines()
    assert "average reward 4.0000 learned, 10.000 optimal" in line
    assert note == (
        "note: the learned policy has 2 recurrent classes, and its average is over where it ends"
        " from the model's start: 1 with probability 0.667, 10 with probability 0.333"
    )


def test_time_at_the_boundary_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = saved(tmp_path / "run", "jax:reentrant")
    assert main(["map", run, "--size", "3", "--out", str(tmp_path / "map.png")]) == 0
    note = capsys.readouterr().out.splitlines()[1]
    assert note.startswith("note: the learned policy spends ") and "a larger --size" in note


def test_help_has_options_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", "--help"]) == 0
    text = capsys.readouterr().out
    for part in ("--replica", "--size", "--out", "longrun map runs/criss-cross", "60 for two"):
        assert part in text


@pytest.mark.parametrize(
    ("env", "arguments", "message"),
    [
        ("jax:six-class", [], "'jax:six-class' has 6 queues; a map shows two or three"),
        ("CartPole-v1", [], "no map is drawn of 'CartPole-v1': it is for networks of two or"),
        (Choice(), [], "was trained on 'choice none', which is no id: pass env="),
        ("jax:n-model", ["--replica", "1"], "replica=1 is not in"),
        ("jax:n-model", ["--size", "0"], "size=0 must be 1 or more"),
        ("jax:n-model", ["--size", "2.5"], "--size: invalid whole number value: '2.5'"),
        ("jax:n-model", ["--out", "map.doc"], "map.doc: '.doc' is not a picture format"),
        ("jax:n-model", ["--sise", "3"], "did you mean --size"),
        ("jax:inventory", ["--size", "3"], "size=3 is for queueing networks; 'jax:inventory'"),
        (None, [], "there is no checkpoint in"),
    ],
)
def test_wrong_input(
    env: Any,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = str(tmp_path / "nowhere") if env is None else saved(tmp_path / "run", env)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(
        "longrun.lab.policy_map.exact_comparison.solve", lambda _: pytest.fail("solved")
    )
    assert main(["map", run, *arguments]) == 2
    printed, error = capsys.readouterr()
    assert message in error
    assert (printed, error.count("\n")) == ("", 1)
    assert list((tmp_path / "here").iterdir()) == []


def test_environments_without_a_map() -> None:
    with pytest.raises(ValueError, match="no map is drawn of 'choice none': it is for"):
        require_mappable(Choice())
    with pytest.raises(ValueError, match="'jax:six-class' has 6 queues"):
        exact_model(six_class())
    assert (box_size(n_model()), box_size(criss_cross())) == (60, 30)
    assert box_size(Inventory()) == 0
    assert box_size(n_model(buffer=4)) == box_size(n_model(buffer=4), 4) == 4
    with pytest.raises(InputError, match="size=5 is not the buffer"):
        box_size(n_model(buffer=4), 5)


def test_there_is_no_gap_to_a_gain_of_zero() -> None:
    mdp = riverswim(3)
    mdp.rewards[:] = 0
    assert np.isnan(compare_policies(mdp, np.ones(3, int), boxed=False).gap)
