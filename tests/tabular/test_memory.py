"""Models that cannot fit into the memory are refused before anything large is allocated."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from longrun.base import memory
from longrun.base.errors import InputError
from longrun.exact.queueing import exact_model
from longrun.learning.envs.queueing.environment import ENVIRONMENTS
from longrun.queueing import MODELS as NETWORKS
from longrun.tabular import MDP, MODELS, solve

MIB = 2.0**20


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "total_memory", lambda: 64 * MIB)


def stays(state: Any, action: Any) -> Any:
    return [(1.0, state, 0.0)]


def zeros(*shape: int) -> Any:
    """An array that takes no memory of its own."""
    return np.broadcast_to(0.0, shape)


LARGE: dict[str, tuple[Callable[[], Any], str]] = {
    "network": (
        lambda: ENVIRONMENTS["six-class"]().exact(size=30),
        "size=30 makes 887,503,681 states of 6 classes, which need ",
    ),
    "network by name": (
        lambda: NETWORKS["criss-cross"](size=100),
        "size=100 makes 1,030,301 states of 3 classes, which need ",
    ),
    "access-control": (
        lambda: MODELS["access-control"](servers=1000),
        "servers=1000 makes 4,004 states, which need ",
    ),
    "admission": (lambda: MODELS["admission"](size=10**9), "size=1000000000 makes 1,000,000,001"),
    "garnet": (lambda: MODELS["garnet"](states=10**6), "states=1000000 makes 1,000,000 states"),
    "dense garnet": (
        lambda: MODELS["garnet"](states=200, actions=300),
        "states=200 makes 200 states, which need ",
    ),
    "inventory": (lambda: MODELS["inventory"](capacity=500), "capacity=500 makes 501 states, "),
    "machine-replacement": (
        lambda: MODELS["machine-replacement"](levels=10**9),
        "levels=1000000000 makes 1,000,000,001 states",
    ),
    "maintenance": (
        lambda: MODELS["maintenance"](levels=10**9),
        "levels=1000000000 makes 1,000,000,003 states",
    ),
    "riverswim": (lambda: MODELS["riverswim"](10**9), "length=1000000000 makes 1,000,000,000"),
    "function": (
        lambda: MDP.from_function(stays, 10**9, 2),
        "states=1000000000 makes 1,000,000,000 states, which",
    ),
    "arrays": (
        lambda: MDP(zeros(3000, 1, 3000), zeros(3000, 1)),
        "transitions of shape (3000, 1, 3000) and a copy of them need 0.1 GiB",
    ),
    "sparse arrays": (
        lambda: MDP([sparse.eye_array(10**6)] * 10, zeros(10**6, 10)),
        "10,000,000 transitions and a copy of them need ",
    ),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", LARGE)
def test_large_models_are_refused(name: str) -> None:
    build, message = LARGE[name]
    tracemalloc.start()
    with pytest.raises(InputError, match=re.escape(message)) as refusal:
        build()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "GiB of memory, of 0.1 GiB that there are" in str(refusal.value)
    assert peak < 64 * MIB


@pytest.mark.usefixtures("small")
def test_the_message_names_a_size_that_fits() -> None:
    with pytest.raises(InputError, match=r"that there are; give \d+ or less$") as refusal:
        NETWORKS["criss-cross"](size=100)
    largest = int(str(refusal.value).split()[-3])
    NETWORKS["criss-cross"](size=largest)
    with pytest.raises(InputError):
        NETWORKS["criss-cross"](size=largest + 2)


@pytest.mark.parametrize("method", ["policy_iteration", "linear_program"])
def test_solving_needs_memory_too(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = NETWORKS["tandem"](size=100)
    monkeypatch.setattr(memory, "total_memory", lambda: 2 * MIB)
    with pytest.raises(InputError, match=r"10,201 states to be solved need .* GiB of memory"):
        solve(mdp, method)
    with pytest.raises(InputError, match="10,201 states to be solved need"):
        solve(mdp, method, limits={"blocked": 1.0})


@pytest.mark.parametrize("name", NETWORKS)
def test_estimates_are_close(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is allocated while a network's model is built."""
    asked: list[float] = []
    monkeypatch.setattr(exact_model, "require_memory", lambda size, *_: asked.append(size))
    classes = ENVIRONMENTS[name]().network.num_classes
    tracemalloc.start()
    NETWORKS[name](size=round(20_000 ** (1 / classes)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.8 < peak / max(asked) < 1.25
