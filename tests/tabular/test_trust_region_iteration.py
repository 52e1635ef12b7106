"""Certified steps, growing boxes, and the figures of both."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_mdps import COUPLING, KINDS, examples, random_mdp, random_policy, seeds

from longrun.exact.tabular.models import access_control, riverswim
from longrun.exact.tabular.precision import rounding
from longrun.exact.tabular.solvers import Solution, Truncation, grow_box
from longrun.exact.tabular.trust_region import (
    CERTIFICATES,
    TrustRegionPath,
    trust_region_policy_iteration,
)
from longrun.lab.policy_map.picture import least_important, solution_map
from longrun.tabular import MDP, evaluate, improvement_bounds, solve
from reference_networks import criss_cross, tandem


def best_discounted(mdp: MDP, discount: float) -> float:
    """The best eta_gamma, by value iteration."""
    values = np.zeros(mdp.num_states)
    for _ in range(2000):
        values = mdp.lookahead(values, discount).max(1)
    return float((1 - discount) * mdp.initial @ values)


def check(mdp: MDP, path: TrustRegionPath, start: Any, discount: float) -> None:
    gain = evaluate(mdp, start, discount).discounted_gain
    # Of a gain: one rounding error per state for its law, and one for each of its terms.
    off = rounding(2 * mdp.num_states + 4, float(np.abs(mdp.rewards[mdp.available]).max()))
    for step in path.steps:
        assert 0 < step.size <= 1
        promised = step.bounds.bounds[path.certificate].lower
        assert 0 < promised <= step.bounds.difference + 2 * off
        assert step.gain == pytest.approx(gain + step.bounds.difference, abs=4 * off)
        assert step.gain >= gain + promised - 2 * off
        gain = step.gain
    assert path.gain == pytest.approx(gain, abs=off)
    last = evaluate(mdp, path.policy, discount)
    assert last.discounted_gain == pytest.approx(path.gain, abs=1e-9)
    assert 0 <= path.gap == pytest.approx(max(last.advantage.max(), 0), abs=1e-9)
    best = solve(mdp).gain_high if discount == 1 else best_discounted(mdp, discount)
    assert path.gain - 1e-9 <= best <= path.gain + path.gap + 1e-8


def uniform(mdp: MDP) -> Any:
    return mdp.available / mdp.available.sum(1, keepdims=True)


# --- trust-region policy iteration -----------------------------------------------------------


@pytest.mark.parametrize(
    ("certificate", "discount"),
    [
        ("theorem", 1.0),
        ("theorem", 0.9),
        ("achiam", 0.9),
        ("zhang_ross", 1.0),
        ("dai_gluzman", 1.0),
        ("dai_gluzman", 0.9),
    ],
)
def test_riverswim(certificate: str, discount: float) -> None:
    mdp = riverswim(4)
    path = trust_region_policy_iteration(mdp, discount=discount, certificate=certificate)
    assert path.certificate == certificate
    assert path.gap <= 1e-6 and len(path.steps) > 3
    check(mdp, path, uniform(mdp), discount)


def test_riverswim_by_name() -> None:
    path = trust_region_policy_iteration(riverswim(), certificate="dai_gluzman")
    assert path.gain == pytest.approx(0.4286224338, abs=1e-6)
    assert (path.policy[:, 1] > 0.999).all()


@settings(examples, max_examples=10)
@given(seeds, st.sampled_from([kind for kind in KINDS if kind not in COUPLING]), st.booleans())
def test_random_models(seed: int, kind: str, average: bool) -> None:
    random = np.random.default_rng(seed)
    mdp = random_mdp(random, kind, int(random.integers(1, 6)), int(random.integers(1, 4)))
    discount = 1.0 if average else 0.9
    start = random_policy(random, mdp)
    path = trust_region_policy_iteration(mdp, start, discount, max_steps=40)
    assert len(path.steps) <= 40
    check(mdp, path, start, discount)


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_greedy_policies_with_two_classes(discount: float) -> None:
    """Both states pay for staying, so that the greedy policy leaves neither."""
    mdp = MDP(np.stack([np.eye(2), [[0, 1], [1, 0]]], axis=1), [[1, 0], [1, 0]])
    path = trust_region_policy_iteration(mdp, discount=discount, max_steps=30)
    check(mdp, path, uniform(mdp), discount)
    assert path.gain > 0.9


def test_an_optimal_policy_takes_no_step() -> None:
    mdp = riverswim()
    path = trust_region_policy_iteration(mdp, np.ones(6))
    assert path.steps == [] and path.gap <= 1e-9
    assert path.gain == pytest.approx(0.4286224338)


def test_the_number_of_steps_can_be_limited() -> None:
    path = trust_region_policy_iteration(riverswim(), max_steps=2)
    assert len(path.steps) == 2 and path.gap > 0.01
    assert path.gain < 0.4286 < path.gain + path.gap


def test_another_first_state_matters_with_a_discount() -> None:
    mdp, last = riverswim(3), [0, 0, 1]
    path = trust_region_policy_iteration(mdp, discount=0.9, initial=last, max_steps=3)
    exact = evaluate(mdp, path.policy, 0.9, initial=last).discounted_gain
    assert path.gain == pytest.approx(exact)
    assert path.gain > evaluate(mdp, path.policy, 0.9).discounted_gain


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"certificate": "schulman"},
            "unknown certificate 'schulman'; valid: theorem, achiam, zhang_ross, dai_gluzman",
        ),
        (
            {"certificate": "achiam"},
            "certificate='achiam' says nothing for discount=1.0; take 'theorem'",
        ),
        (
            {"certificate": "zhang_ross", "discount": 0.9},
            "certificate='zhang_ross' says nothing for discount=0.9; take 'theorem'",
        ),
        ({"discount": 1.5}, "discount=1.5 is outside [0, 1]"),
        ({"policy": [0, 0]}, "policy has shape (2,)"),
    ],
)
def test_steps_that_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        trust_region_policy_iteration(riverswim(), **options)


def test_a_start_that_earns_nothing_is_left() -> None:
    """Advantages of 1e-7 matter where no reward is larger."""
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    mdp = MDP(np.stack([swap, swap], axis=1), [[0, 1e-7], [0, 1e-7]])
    path = trust_region_policy_iteration(mdp, [0, 0])
    assert path.gain == pytest.approx(1e-7, rel=1e-5) and path.gap < 1e-12


# --- growing boxes ---------------------------------------------------------------------------


def light(size: int) -> MDP:
    return criss_cross("IL", size)


def test_growing_boxes() -> None:
    found = grow_box(light, [4, 6, 8])
    assert found.sizes == [4, 6, 8]
    gains = [solution.gain for solution in found.solutions]
    assert gains[0] > gains[1] > gains[2] == found.gain
    limit = solve(light(12)).gain
    missing = found.gain - limit
    assert 0.5 * found.error < missing < 1.5 * found.error  # an estimate: 9.2e-6 and 8.9e-6
    assert found.error < abs(gains[2] - gains[1])


def test_options_go_to_the_solver() -> None:
    found = grow_box(light, [2, 3], method="value_iteration", tolerance=1e-4)
    assert {solution.method for solution in found.solutions} == {"value_iteration"}
    assert found.error >= abs(found.solutions[1].gain - found.solutions[0].gain)


def solution(gain: float, width: float = 0.0) -> Solution:
    none: Any = np.zeros(1)
    return Solution(gain, gain - width / 2, gain + width / 2, none, none, 1, "policy_iteration")


@pytest.mark.parametrize(
    ("gains", "error"),
    [
        ([2.0, 3.0], 1.0),  # the last change, without an earlier one
        ([0.0, 4.0, 5.0], 1 / 3),  # 1/4 + 1/16 + ...
        ([0.0, 2.0, 3.0], 1.0),  # 1/2 + 1/4 + ...
        ([0.0, 1.0, 2.0], 10.0),  # does not shrink
        ([0.0, 0.0, 1.0], 10.0),
        ([0.0, -1000.0, -1001.0], 0.01),  # at least a hundredth of the last change
        ([0.0, 1.0, 1.0], 0.0),
    ],
)
def test_error_estimates_by_hand(gains: list[float], error: float) -> None:
    sizes = list(range(1, len(gains) + 1))
    assert Truncation(sizes, [solution(g) for g in gains]).error == pytest.approx(error)
    wide = Truncation(sizes, [solution(g, 0.5) for g in gains])
    assert wide.error == pytest.approx(error + 0.5)


@pytest.mark.parametrize("sizes", [[10, 20, 30], [10, 28, 30], [5, 15, 30], [2, 3, 5]])
@pytest.mark.parametrize("ratio", [0.8, 0.9])
def test_boxes_need_not_grow_evenly(sizes: list[int], ratio: float) -> None:
    grown = Truncation(sizes, [solution(ratio**size) for size in sizes])
    assert grown.error == pytest.approx(ratio ** sizes[-1])


@pytest.mark.parametrize("sizes", [[], [3], [4, 3], [3, 3], [2, 4, 4]])
def test_boxes_have_to_grow(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match=re.escape(f"sizes={sizes} need at least two, growing")):
        grow_box(light, sizes)


# --- pictures --------------------------------------------------------------------------------


def pictures_of_the_theory() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "tabular_pictures.py"
    spec = importlib.util.spec_from_file_location("tabular_pictures", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pictures = pictures_of_the_theory()
HEADS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def check_picture(path: Path) -> None:
    assert path.read_bytes().startswith(HEADS[path.suffix])
    assert path.stat().st_size > 5000
    assert plt.get_fignums() == [], "figures are closed"


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_xi_over_discount(ending: str, tmp_path: Path) -> None:
    out = tmp_path / "new folder" / f"xi{ending}"
    pictures.xi_over_discount(riverswim(3), np.ones(3), out)
    check_picture(out)
    if ending == ".svg":
        assert "RiverSwim, 3 states" in out.read_text()


@pytest.mark.usefixtures("laid_out")
def test_bound_tightness(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    comparisons = []
    for discount in (1.0, 0.9):
        mdp = random_mdp(random, "dense", 4, 2)
        old, new = random_policy(random, mdp), random_policy(random, mdp)
        comparisons += [improvement_bounds(mdp, old, p, discount) for p in (new, old)]
    pictures.bound_tightness(comparisons, tmp_path / "tight.svg")
    check_picture(tmp_path / "tight.svg")
    assert "2 pairs of policies" in (tmp_path / "tight.svg").read_text()  # equal ones are left out


@pytest.mark.parametrize(("certificate", "discount"), [("theorem", 1.0), ("achiam", 0.9)])
def test_certified_steps(certificate: str, discount: float, tmp_path: Path) -> None:
    mdp = riverswim(4)
    path = trust_region_policy_iteration(
        mdp, discount=discount, certificate=certificate, max_steps=5
    )
    pictures.certified_steps(path, tmp_path / "steps.png")
    check_picture(tmp_path / "steps.png")


@pytest.mark.usefixtures("laid_out")
def test_certified_steps_of_an_optimal_policy(tmp_path: Path) -> None:
    path = trust_region_policy_iteration(riverswim(), np.ones(6))
    pictures.certified_steps(path, tmp_path / "steps.pdf")
    check_picture(tmp_path / "steps.pdf")


@pytest.mark.usefixtures("laid_out")
@pytest.mark.parametrize(
    "mdp", [tandem(size=4), criss_cross(size=2), criss_cross(size=5), access_control(2)]
)
def test_policy_maps(mdp: MDP, tmp_path: Path) -> None:
    """Two queues, slices of three (in one row and in two), and a state that is not a queue."""
    policy = mdp.available.argmax(1)
    solution_map(mdp, policy, tmp_path / "map.png")
    check_picture(tmp_path / "map.png")


def test_policy_maps_show_each_action_at_its_state(tmp_path: Path) -> None:
    mdp = criss_cross(size=3)
    solution_map(mdp, solve(mdp).policy, tmp_path / "map.svg")
    text = (tmp_path / "map.svg").read_text()
    policy = solve(mdp).policy
    chosen = {mdp.actions[a] for a in policy}
    cut = mdp.sides[least_important(policy.reshape(mdp.shape))]
    others = [side for side in mdp.sides if side != cut]
    for words in (*chosen, mdp.name, f"{cut}: 0", f"{cut}: 3", *others):
        assert words in text
    assert f"{cut}: 4" not in text


def test_policy_maps_show_the_values_of_labels(tmp_path: Path) -> None:
    """A stock of -20 to 25, not the indices 0 to 45; the side in slices is called by its value."""
    states = [(lead, stock, kind) for lead in (3, 7) for stock in range(-20, 26) for kind in "ab"]
    mdp = MDP.from_function(
        lambda state, action: [(1.0, state, 0.0)],
        states,
        1,
        shape=(2, 46, 2),
        sides=("lead", "stock", "kind"),
    )
    solution_map(mdp, np.zeros(len(states)), tmp_path / "map.svg")
    text = (tmp_path / "map.svg").read_text()
    shown = set(re.findall(r"<!-- (.*?) -->", text)) | set(re.findall(r">([^<]+)</text>", text))
    assert {"-20", "20", "a", "b", "lead: 3", "lead: 7"} <= shown
    assert "40" not in shown and "lead: 0" not in shown


def test_pictures_that_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "map.png"
    message = "a policy map needs a box of 2 or 3 sides; this model's is (6,)"
    with pytest.raises(ValueError, match=re.escape(message)):
        solution_map(riverswim(), np.ones(6), out)
    for name in ("map.doc", "map"):
        message = f"{tmp_path / name}: '{Path(name).suffix}' is not a picture format; use png"
        with pytest.raises(ValueError, match=re.escape(message)):
            solution_map(tandem(size=2), np.zeros(9), tmp_path / name)
        with pytest.raises(ValueError, match=re.escape(message)):
            pictures.xi_over_discount(riverswim(3), np.ones(3), tmp_path / name)
    assert list(tmp_path.iterdir()) == [] and plt.get_fignums() == []


def test_a_map_needs_one_action_per_state(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"policy has shape \(9, 2\); a map needs one action"):
        solution_map(tandem(size=2), np.zeros((9, 2)), tmp_path / "map.png")


def test_every_certificate_has_a_style() -> None:
    assert set(pictures.STYLES) == set(CERTIFICATES)


def test_a_path_reports_whether_it_converged() -> None:
    assert not trust_region_policy_iteration(riverswim(), max_steps=3).converged
    assert trust_region_policy_iteration(riverswim(3)).converged
