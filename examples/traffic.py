"""Traffic lights on a grid: a small simulator in JAX, trained inside one compiled program.

What one learns from it: longrun's own protocol for environments in JAX (`Environment`, `Spaces`,
`Step`), which trains on a GPU if there is one and on the CPU otherwise; many decisions in one
action, a light for each crossing; a comparison with lights of a fixed cycle, the best of a small
search, and with the light for the longer queues.

It takes about 70 seconds of processor time on a CPU. It prints (seeds 0 to 2):

    fixed cycle (3, 4): 12.36 +- 0.02 vehicles at a crossing
    longer queues 1: 9.91 +- 0.02 vehicles at a crossing
    APO, seed 0: 9.52 [9.49, 9.54]
    APO, seed 1: 9.53 [9.50, 9.56]
    APO, seed 2: 9.51 [9.48, 9.53]

The same with SUMO is a recipe (`pip install sumo-rl eclipse-sumo`; the variable SUMO_HOME is what
`python -c "import sumo; print(sumo.SUMO_HOME)"` prints; tried with sumo-rl 1.4.5, SUMO 1.28.0).
sumo-rl's environment of one crossing is a Gymnasium environment; that of several is to be wrapped,
with a `MultiDiscrete` action. Its episodes are cut off after `num_seconds`, which longrun does not
take for the end of the task. SUMO takes seeds below 2**31 only:

    class Crossing(sumo_rl.SumoEnvironment):
        def __init__(self):
            nets = Path(sumo_rl.__file__).parent / "nets" / "single-intersection"
            names = {"net_file": "single-intersection.net.xml"}
            names |= {"route_file": "single-intersection.rou.xml"}
            files = {name: str(nets / file) for name, file in names.items()}
            options = {"single_agent": True, "num_seconds": 20_000, "reward_fn": "queue"}
            super().__init__(**files, **options)

        def reset(self, *, seed=None, **others):
            return super().reset(seed=None if seed is None else seed % 2**31, **others)

    agent = APO(Crossing, num_envs=4, num_workers=4)  # SUMO in four processes
    agent.learn(200_000, log_dir="runs/sumo")
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from longrun import APO, Environment, Spaces, Step
from longrun.queueing import average_cost

EAST_WEST = 1
"""has green; with 0, north and south"""
GREEN, CHANGED = 6, 4
"""vehicles that leave a street in a step of about twelve seconds; in one that begins yellow"""
LONGEST = 30
"""vehicles that a street holds; a street that is full blocks the crossing before it"""


class Traffic(NamedTuple):
    queues: jax.Array
    """[n, n, 4] vehicles before each crossing that go south, north, east and west"""
    light: jax.Array
    """[n, n] who has green"""
    time: jax.Array
    """[] steps so far, for lights of a fixed cycle"""


Rule = Callable[[Traffic], jax.Array]


@dataclass(frozen=True)
class Grid(Environment):
    """n x n crossings, each of which gives green to north and south or to east and west.

    A light that changes is yellow at first, so that fewer vehicles leave. They go straight on.
    Reward: minus the mean number of vehicles that wait at a crossing.
    """

    n: int = 3
    rates: tuple[float, float] = (1.0, 2.2)  # vehicles a step from outside, by their light
    terminates = False

    @property
    def name(self) -> str:
        return f"traffic-{self.n}x{self.n}"

    @property
    def spaces(self) -> Spaces:
        crossings = self.n**2
        return Spaces(5 * crossings, crossings, (2,) * crossings)

    def reset(self, key):
        light = jax.random.randint(key, (self.n, self.n), 0, 2)
        start = Traffic(jnp.zeros((self.n, self.n, 4), jnp.int32), light, jnp.int32(0))
        return start, self.observation(start)

    def step(self, key, state, action):
        light = action.reshape(self.n, self.n)
        most = jnp.where(light == state.light, GREEN, CHANGED)[..., None]
        open_ = light[..., None] == jnp.array([0, 0, EAST_WEST, EAST_WEST])
        room = LONGEST - behind(state.queues)
        leave = jnp.minimum(jnp.minimum(state.queues, most), room) * open_
        queues = state.queues - leave + before(leave)
        queues = jnp.minimum(queues + self.arrivals(key), LONGEST)
        after = Traffic(queues, light, state.time + 1)
        return Step(after, self.observation(after), -queues.sum() / self.n**2, False)

    def arrivals(self, key) -> jax.Array:
        """[n, n, 4] at the borders; the sum of four numbers that are 0 or 1."""
        rates = jnp.repeat(jnp.array(self.rates), 2) / 4
        drawn = (jax.random.uniform(key, (4, self.n, self.n, 4)) < rates).sum(0)
        border = 1 - before(jnp.ones((self.n, self.n, 4), jnp.int32))
        return drawn * border

    def observation(self, state) -> jax.Array:
        queues = jnp.log1p(state.queues.reshape(-1).astype(jnp.float32))
        return jnp.append(queues, 2.0 * state.light.reshape(-1) - 1)


def before(values: jax.Array) -> jax.Array:
    """[n, n, 4] the values of the street before each one; 0 at the border."""
    padded = jnp.pad(values, ((1, 1), (1, 1), (0, 0)))
    south, north = padded[:-2, 1:-1, 0], padded[2:, 1:-1, 1]
    return jnp.stack([south, north, padded[1:-1, :-2, 2], padded[1:-1, 2:, 3]], -1)


def behind(values: jax.Array) -> jax.Array:
    """[n, n, 4] the values of the street behind each crossing; 0 outside the grid."""
    opposite = jnp.array([1, 0, 3, 2])
    return before(values[..., opposite])[..., opposite]


def fixed_cycle(grid: Grid, greens: Any) -> Rule:
    """Green for `greens` [2] steps in turn."""
    return lambda state: jnp.full(grid.n**2, state.time % sum(greens) >= greens[0], jnp.int32)


def longer_queues(grid: Grid, more: Any) -> Rule:
    """Change when at least `more` vehicles more wait at red than at green."""

    def rule(state: Traffic) -> jax.Array:
        ahead = state.queues[..., 2:].sum(-1) - state.queues[..., :2].sum(-1)
        ahead = jnp.where(state.light == EAST_WEST, -ahead, ahead)
        return jnp.where(ahead >= more, 1 - state.light, state.light).reshape(-1)

    return rule


RULES = {
    "fixed cycle": (fixed_cycle, list(itertools.product(range(1, 7), range(1, 7)))),
    "longer queues": (longer_queues, list(range(1, 17))),
}
"""What makes each rule, and what is tried for it."""


def searched(grid: Grid, make: Callable[[Grid, Any], Rule], tried: list[Any], steps: int) -> Any:
    """What makes the best rule, all of them simulated at once on a seed of their own."""

    def cost(setting: jax.Array, key: jax.Array) -> jax.Array:
        def one_step(state: Traffic, key: jax.Array) -> tuple[Traffic, jax.Array]:
            step = grid.step(key, state, make(grid, setting)(state))
            return step.state, -step.reward

        state, _ = grid.reset(key)
        return jax.lax.scan(one_step, state, jax.random.split(key, steps))[1][steps // 5 :].mean()

    keys = jax.random.split(jax.random.key(1000), len(tried))
    return tried[int(jnp.argmin(jax.jit(jax.vmap(cost))(jnp.array(tried), keys)))]


def run(given: argparse.Namespace) -> None:
    grid = Grid(given.n)
    for name, (make, tried) in RULES.items():
        best = searched(grid, make, tried, given.search_steps)
        cost = average_cost(grid, make(grid, best), steps=given.search_steps, seed=2000)
        print(f"{name} {best}: {cost.mean:.2f} +- {cost.half_width:.2f} vehicles at a crossing")
    for seed in range(given.seed, given.seed + given.seeds):
        agent = APO(
            grid,
            preset="queueing",
            seed=seed,
            num_envs=given.num_envs,  # the preset's 1024 suit a GPU
            rollout_steps=64,
            minibatch_size=given.num_envs * 16,
            learning_rate=1e-3,
            gae_lambda=0.9,
        )
        agent.learn(given.steps)
        found = agent.evaluate(given.eval_steps, seed=2000)
        low, high = -found.high, -found.low
        print(f"APO, seed {seed}: {-found.average_reward:.2f} [{low:.2f}, {high:.2f}]")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=3, help="crossings on a side")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--eval-steps", type=int, default=40_000)
    parser.add_argument("--search-steps", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    run(parsed())
