"""Limits in grids and sweeps, costs that cannot be used, and limits that cannot be kept."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fake_workers import some_runs
from longrun import ATRPO
from longrun.base.errors import InputError
from longrun.cli import main
from longrun.lab.sweeps.grids import parse_lists, written
from longrun.lab.sweeps.plan import named
from longrun.learning.envs.native import Step
from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn import learner, preparation
from longrun.learning.learn.types import Rollout
from longrun.learning.options.config_options import make_config
from longrun.learning.train import checkpoint, failing_training
from one_state_env import OneState
from run_specs import progress_of, spec_of
from tiny_envs import TINY, TINY_FLAGS


@dataclass(frozen=True)
class Odd(OneState):
    """Its only cost, `fuel`, is two numbers."""

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        return Step(state, jnp.ones(1), jnp.ones(()), False, {"fuel": jnp.ones(2)})


def test_costs_that_cannot_be_used() -> None:
    with pytest.raises(
        InputError, match=r"cost 'fuel' of 'odd' has shape \(2,\); it must have \(\)"
    ):
        ATRPO(Odd(), limits={"fuel": 0.1}, **TINY)
    known = "busy, rejected, rejected_1, rejected_2, rejected_3, rejected_4"
    with pytest.raises(InputError, match=f"cost 'fuel' is unknown; the environment gave {known};"):
        ATRPO("jax:access-control", limits={"fuel": 0.1}, **TINY)


def test_an_unknown_cost_leaves_no_folder(tmp_path, capsys) -> None:
    out = ["--steps", "64", "--out", str(tmp_path / "run")]
    assert main(["train", "apo", "--env", "jax:access-control", "--costs", "fuel", *out]) == 2
    assert "cost 'fuel' is unknown; the environment gave busy, rejected," in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


# --- grids and sweeps ------------------------------------------------------------------------


def test_a_grid_lists_costs_and_limits() -> None:
    texts = ["limits=busy=6,busy=6.5/rejected_1=1e-3,none", "costs=busy/rejected,none"]
    lists = parse_lists(texts)
    assert lists["limits"] == [[["busy", 6.0]], [["busy", 6.5], ["rejected_1", 0.001]], []]
    assert lists["costs"] == [["busy", "rejected"], []]
    assert [written(v) for v in lists["limits"]] == [
        "busy=6.0",
        "busy=6.5/rejected_1=0.001",
        "none",
    ]
    assert written({"busy": 6}) == "busy=6.0"
    assert [written(v) for v in ([64, 64], ["busy", "rejected"])] == ["64x64", "busy/rejected"]
    for text in ("limits=busy", "limits=busy:6"):
        with pytest.raises(InputError, match=r"must be limits such as terminated=0.001.*, or none"):
            parse_lists([text])


def test_runs_that_differ_in_rates_are_joined_on_a_device() -> None:
    grid = parse_lists(["limits=busy=6,busy=7,rejected=0.5"])
    runs = some_runs("atrpo", "jax:access-control", grid=grid)
    assert len({run.name for run in runs}) == 6
    joined = list(named(runs, batched=True).values())
    assert [len(run.seeds) for run in joined] == [4, 2]
    rates = [config.limits[0][1] for config in joined[0].configs]
    assert rates == [6.0, 7.0, 6.0, 7.0]


def test_another_rate_does_not_recompile() -> None:
    spaces = Spaces(1, 1, (2,))
    facts, never = np.zeros((16, 4, 1), np.float32), np.zeros((16, 4), bool)
    action, costs = np.zeros((16, 4, 1), np.int32), np.ones((16, 4, 1), np.float32)
    rollout = Rollout(facts, action, facts[..., 0], facts, never, never, facts[0], costs)
    margins, compiled = [], []
    for rate in (0.25, 0.5, 0.0):
        config = make_config("atrpo", limits={"fuel": rate}, **TINY)
        state = learner.init(config, spaces, jax.random.key(0))
        _, state, _ = preparation.prepare(config, spaces, state, rollout)
        margins.append(float(state.limits.margin[0]))
        compiled.append(preparation._prepare._cache_size())
    assert len(set(compiled)) == 1
    # A quarter of limit_step_size, 0.3, of the excess, which counts as the limit at most, or as two
    # of the largest costs in a batch of 64.
    assert margins == pytest.approx([0.075 * 0.25, 0.075 * 0.5, 0.075 * 2 / 64], rel=1e-5)


# --- limits that are out of reach ------------------------------------------------------------


def test_only_a_limit_out_of_reach_is_named() -> None:
    config = make_config("apo", limits={"falls": 0.1, "fuel": 0.5})
    watch = failing_training.UnkeptLimits(spec_of([config], [0], 10**6), config)
    high = {"recovering": 1.0, "cost_fuel": 0.75, "cost_falls": 0.05}
    said = [watch(progress_of(i, high)) for i in range(1, 101)]
    assert said[:99] == [None] * 99
    assert said[99] == (
        "cost 'fuel' is 0.75 and its limit is 0.5, after 100 iterations that only lowered costs;"
        " no policy may keep it: raise the limit"
    )


@pytest.mark.slow
def test_replicas_with_different_limits_in_one_program(tmp_path, monkeypatch) -> None:
    """One limit is out of reach, and said to be; the other is far away."""
    monkeypatch.setattr(failing_training, "UNKEPT_ITERATIONS", 2)
    flags = ["--num-envs", "4", "--rollout-steps", "16", "--minibatch-size", "32", "--quiet"]
    run = ["train", "atrpo", "--env", "jax:access-control", "--steps", "192", "--no-eval", *flags]
    out = ["--hidden-sizes", "8", "--out", str(tmp_path / "run")]
    with pytest.warns(UserWarning, match="cost 'busy' is .* and its limit is -100, .*seed 0"):
        assert main([*run, *out, "--grid", "limits=busy=-100,busy=100"]) == 0
    lines = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    recovering = {(row["replica"], row["recovering"]) for row in csv.DictReader(lines)}
    assert recovering == {("0", "1"), ("1", "0")}


def test_limits_on_terminations_in_a_grid_are_targets_of_the_reset_cost(tmp_path) -> None:
    run = ["train", "apo", "--env", "Drift-v0", "--steps", "64", "--no-eval", *TINY_FLAGS]
    grid = ["--grid", "limits=terminated=0.1,terminated=0.01", "--workers", "0"]
    assert main([*run, *grid, "--out", str(tmp_path / "run")]) == 0
    configs = checkpoint.load(tmp_path / "run").spec.configs
    assert [config.limits for config in configs] == [(("terminated", x),) for x in (0.1, 0.01)]
    assert [config.reset_cost_step_size for config in configs] == [1, 1]


def test_limits_of_one_run_are_on_the_same_costs(capsys) -> None:
    run = ["train", "atrpo", "--env", "jax:access-control", "--steps", "64"]
    assert main([*run, "--grid", "limits=busy=6,none"]) == 2
    assert "must be on the same costs; use longrun sweep" in capsys.readouterr().err
