"""Many replicas, and an environment that is slower than the others: benchmarks/load.py, small."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def harness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.mark.long
def test_what_is_learned_does_not_depend_on_a_slow_environment() -> None:
    """Nor is it taken for one that hangs."""
    from load import slow

    _, seconds, _, compared = slow(4, factor=200.0, workers=2, steps=8)
    assert seconds > compared


@pytest.mark.long
def test_many_replicas_are_trained_saved_and_resumed() -> None:
    from load import replicas

    replicas(20, iterations=4)
