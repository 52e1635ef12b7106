"""The exact models of the known networks against event lists that were written by hand."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import reference_networks
from longrun.exact.queueing.known_networks import MODELS, REGIMES
from longrun.exact.tabular.mdp import MDP
from longrun.exact.tabular.solvers import solve
from longrun.learning.envs.queueing.environment import ENVIRONMENTS

UNUSUAL_N_MODEL = (0.7, (0.5, 0.8), (1.0, 2.0, 1.5), (1.0, 4.0), 3)
UNUSUAL_TANDEM = (0.3, (0.7, 1.1), (2.0, 1.0), 4)
BOXES: list[tuple[str, Callable[..., MDP], tuple[Any, ...], list[int]]] = [
    *(("criss-cross", reference_networks.criss_cross, (r, 3), [1, 2, 0]) for r in REGIMES),
    ("criss-cross", reference_networks.criss_cross, ("BH", 1), [1, 2, 0]),
    ("n-model", reference_networks.n_model, UNUSUAL_N_MODEL, [0, 1]),
    ("tandem", reference_networks.tandem, UNUSUAL_TANDEM, [1, 0]),
]
"""Name, reference model, arguments, and the reference's number of each action."""


@pytest.mark.parametrize(("name", "reference", "arguments", "order"), BOXES)
def test_models_are_the_reference_models(
    name: str, reference: Callable[..., MDP], arguments: tuple[Any, ...], order: list[int]
) -> None:
    mine, other = MODELS[name](*arguments), reference(*arguments)
    assert mine.shape == other.shape
    assert mine.available.any(1).all() and mine.available.mean() > 0.6
    for a, row in enumerate(order):
        states = np.flatnonzero(mine.available[:, a])
        given = other.kernel[states + row * other.num_states].toarray()
        found = mine.kernel[states + a * mine.num_states].toarray()
        np.testing.assert_allclose(found, given, atol=1e-15)
        np.testing.assert_array_equal(mine.rewards[states, a], other.rewards[states, row])


def test_models_with_idling_have_all_rows_of_the_reference_models() -> None:
    for name in ("criss-cross", "tandem"):
        mine = MODELS[name](size=4)
        reference = getattr(reference_networks, name.replace("-", "_"))(size=4)
        assert mine.available.all() and mine.num_transitions == reference.num_transitions


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("criss-cross", {"regime": "BM", "size": 6}),
        ("n-model", {"size": 12}),
        ("tandem", {"size": 8}),
    ],
)
def test_gains_are_those_of_the_reference_models(name: str, arguments: dict[str, Any]) -> None:
    reference = getattr(reference_networks, name.replace("-", "_"))(**arguments)
    gain = solve(MODELS[name](**arguments), tolerance=1e-10).gain
    assert gain == pytest.approx(solve(reference, tolerance=1e-10).gain, rel=1e-9)


def test_idling_of_the_second_server_does_not_pay_in_a_tandem_queue() -> None:
    """Both servers may idle in the environment, only the first in the model."""
    gain = solve(ENVIRONMENTS["tandem"]().exact(8), tolerance=1e-6).gain
    assert gain == pytest.approx(solve(MODELS["tandem"](size=8), tolerance=1e-6).gain, rel=2e-6)


@pytest.mark.parametrize("name", ["n-model", "reentrant", "six-class"])
def test_models_without_idling_are_those_of_the_environments(name: str) -> None:
    mine, other = MODELS[name](size=2), ENVIRONMENTS[name]().exact(2)
    assert abs(mine.kernel - other.kernel).max() == 0 and mine.actions == other.actions
    np.testing.assert_array_equal(mine.available, other.available)


def test_names_of_actions() -> None:
    assert MODELS["criss-cross"](size=1).actions == ("serve class 1", "serve class 3", "idle")
    assert MODELS["tandem"](size=1).actions == ("serve class 1", "idle")
    assert MODELS["six-class"](size=1).actions[0] == "station 1: class 1, station 2: class 4"
    alone = MODELS["reentrant"](stations=(1, 2), service_times=(0.5, 0.5), size=2)
    assert alone.actions == ("serve",)


@pytest.mark.parametrize("name", MODELS)
def test_models_have_the_parameters_of_their_environments(name: str) -> None:
    mdp = MODELS[name](size=2)
    np.testing.assert_allclose(mdp.kernel.sum(1), mdp.available.T.ravel(), atol=1e-14)
    assert mdp.name.endswith("up to 2 a queue") and mdp.cost
    mine, theirs = (
        dict(inspect.signature(builders[name], eval_str=True).parameters)
        for builders in (MODELS, ENVIRONMENTS)
    )
    assert mine.pop("size").annotation is int
    theirs.pop("idling", None)
    assert theirs.pop("buffer").default == 0
    assert mine == theirs
    first = (MODELS[name].__doc__ or "").splitlines()[0]
    assert re.fullmatch(r"\S.{10,90}\.", first) and first in (ENVIRONMENTS[name].__doc__ or "")


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("criss-cross", {"regime": "XX"}, "unknown regime 'XX'; valid: IL, BL, IM, BM, IH, BH"),
        ("criss-cross", {"size": 0}, "size=0 is too small; give 1 or more"),
        ("n-model", {"load": 0.0}, "load=0.0 is not positive; give a finite number above 0"),
        ("n-model", {"service_rates": (1, 2)}, "service_rates=(1, 2) has 2 entries; give 3"),
        ("n-model", {"holding_costs": (1.0, -2.0)}, "holding_costs[1]=-2.0 is negative"),
        ("tandem", {"arrival_rate": -1.0}, "arrival_rate=-1.0 is not positive"),
        ("tandem", {"size": -3}, "size=-3 is too small; give 1 or more"),
        (
            "six-class",
            {"stations": 3, "size": 99},
            "size=99 makes 1,000,000,000,000,000,000 states",
        ),
    ],
)
def test_parameters_that_are_refused(name: str, parameters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        MODELS[name](**parameters)


def test_parameters_that_do_not_exist() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'regimes'"):
        MODELS["criss-cross"](regimes="BM")


@pytest.mark.parametrize("builders", [MODELS, ENVIRONMENTS], ids=["models", "environments"])
def test_overload_is_reported_where_the_builder_is_called(builders: Any) -> None:
    size = {"size": 2} if builders is MODELS else {}
    message = (
        r"station 2 \(stations\[1\]\) of 'tandem queue of 2 stations' has load 1.25, not below"
    )
    with pytest.warns(UserWarning, match=message) as found:
        builders["tandem"](arrival_rate=1.0, service_rates=(2.0, 0.8), **size)
    assert found[0].filename == __file__
    # Class 1 has .3 more than server 1 can do: .3 / .5 + .4 / 1 = 1 at server 2.
    with pytest.warns(UserWarning, match="has load 1, not below 1"):
        builders["n-model"](load=1.0, **size)


def test_models_need_no_jax() -> None:
    program = (
        "import sys, longrun.queueing as q; q.MODELS['tandem'](size=2); print('jax' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "False\n", found.stderr
