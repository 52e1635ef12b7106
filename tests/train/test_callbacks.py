"""`on_log` sees the agent that has learned so far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longrun import APO
from tiny_envs import ITERATION, TINY, Drift, bits

NATIVE = {"num_envs": 4, "rollout_steps": 16, "minibatch_size": 32, "hidden_sizes": (8,)}


@pytest.mark.parametrize("native", [False, True], ids=["host", "device"])
def test_a_callback_sees_and_saves_what_has_been_learned(native: bool, tmp_path: Path) -> None:
    agent = APO("jax:criss-cross", **NATIVE) if native else APO(Drift, num_workers=0, **TINY)
    env = None if native else Drift
    start = bits(agent.snapshot)
    seen: list[int] = []

    def on_log(progress: Any) -> bool:
        assert agent.steps_ >= progress.step
        assert bits(agent.snapshot) != start
        assert agent.evaluate(steps=50).steps >= 50
        agent.save(tmp_path / "best")
        agent.save(tmp_path / "run")
        saved = APO.load(tmp_path / "best", env)
        assert bits(saved.snapshot) == bits(agent.snapshot)
        seen.append(agent.steps_)
        return len(seen) < 3

    agent.learn(20 * ITERATION, log_dir=tmp_path / "run", on_log=on_log, eval_every=0)
    assert len(seen) >= 3 and seen == sorted(seen)
    agent.learn(ITERATION, log_dir=tmp_path / "run")


def test_what_a_callback_returns_is_what_stops_a_run() -> None:
    agent = APO(Drift, num_workers=0, **TINY)
    assert agent.learn(3 * ITERATION, on_log=lambda _: None).steps_ == 3 * ITERATION
    assert agent.learn(3 * ITERATION, on_log=lambda _: 0).steps_ == 6 * ITERATION
    assert agent.learn(3 * ITERATION, on_log=lambda _: False).steps_ == 7 * ITERATION
