"""The networks: traffic equations and loads, and a simulator whose law is the exact model's."""

from __future__ import annotations

import itertools
import re
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrun.envs.native.builtin import BUILTIN, make_builtin
from longrun.envs.native.network import Activity, Network
from longrun.envs.native.networks import criss_cross, n_model, reentrant, six_class, tandem
from longrun.envs.native.queueing import QueueingEnv, event_laws
from longrun.tabular.models import queueing as tabular
from longrun.tabular.solvers import solve

examples = settings(max_examples=15, deadline=None, derandomize=True, database=None)


def feedback(**changes: Any) -> Network:
    """Class 0 is served by two servers and goes on to class 1, back to itself, or out."""
    values: dict[str, Any] = {
        "name": "feedback",
        "arrivals": (1.0, 0.0),
        "stations": ((Activity(0, 2.0), Activity(1, 4.0)), (Activity(0, 3.0), Activity(1, 3.0))),
        "routing": (((1, 0.5), (0, 0.25)), ()),
        "holding_costs": (2.0, 1.0),
    }
    return Network(**values | changes)


# --- the description -------------------------------------------------------------------------


def test_flows_solve_the_traffic_equations() -> None:
    # 4/3 visits to class 0 for each customer, half of them followed by one to class 1
    np.testing.assert_allclose(feedback().flows(), [4 / 3, 2 / 3])
    np.testing.assert_allclose(criss_cross("BH").network.flows(), [0.9, 0.9, 0.9])


def test_loads_by_hand() -> None:
    np.testing.assert_allclose(criss_cross("IM").network.loads(), [0.6, 0.4])
    np.testing.assert_allclose(reentrant().network.loads(), [0.8, 0.9])
    np.testing.assert_allclose(tandem().network.loads(), [0.5, 0.6])
    # Server 1 is best at class 1 and server 2 at class 0, where it has not enough to do: with a
    # share y of its time on class 1 both work (4/3) / 3 + y = (2/3 - 3 y) / 4, so y = -1.11 < 0.
    # Server 1 helps with class 0 instead: 2/3 / 4 + z = (4/3 - 2 z) / 3 with z = 1/6.
    np.testing.assert_allclose(feedback().loads(), [1 / 3, 1 / 3])


def test_load_of_shared_classes_is_the_planning_problems() -> None:
    # Harrison's rates: server 1 gives class 1 all its time, and 0.5 y + 0.9 = 1.17 asks y = 0.54.
    np.testing.assert_allclose(n_model(load=0.9).network.loads(), [0.9, 0.9])
    # Without class 2, server 1 works a share r and server 2 another: r + 0.5 r = 1.17.
    alone = n_model(load=0.9, arrival_rates=(1.3, 0.0)).network
    np.testing.assert_allclose(alone.loads(), [0.78, 0.78])


@pytest.mark.parametrize("stations", range(2, 8))
def test_every_load_of_the_six_class_network_is_nine_tenths(stations: int) -> None:
    network = six_class(stations).network
    np.testing.assert_allclose(network.flows(), 9 / 140)
    np.testing.assert_allclose(network.loads(), 0.9)


def test_overload_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"station 2 of 'criss.* has load 1.1, .* lower arrivals"):
        QueueingEnv(Network("criss", (1.1,), [[(0, 2)], [(0, 1e-9), (1, 1)]], [[(1, 1)]] + [()], (1, 1)))
