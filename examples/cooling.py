"""Cooling a data centre: a continuous plant that never ends.

What one learns from it: a Gymnasium environment of one's own with continuous actions, no episodes
and no time limit; costs that are recorded besides the reward (`costs=`); an evaluation that leaves
out the start-up; a fair comparison with a rule whose two parameters were searched for.

It takes about half a minute of processor time. It prints (seeds 0 to 2):

    thermostat: fans from 25, chiller from 26 degrees: 15.4 an hour
    APO, seed 0: 13.0 an hour [12.6, 13.4] (energy 13.0, heat 0.0); 154 steps of warm-up left out
    APO, seed 1: 12.7 an hour [12.3, 13.2] (energy 12.7, heat 0.0); 96 steps of warm-up left out
    APO, seed 2: 12.6 an hour [12.2, 13.0] (energy 11.7, heat 0.9); 31 steps of warm-up left out
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from longrun import APO

HOURS = 0.25
"""of a step"""
LIMIT = 27.0
"""degrees; each degree above it costs 50 an hour"""
Rule = Callable[["Cooling"], NDArray[np.float32]]


class Cooling(gymnasium.Env):
    """A hall of computers, with fans for outside air and a chiller, both from 0 to 1.

    Outside air is cheap but useful at night only. The chiller needs more power on hot days, and
    power costs twice as much from 8 to 20 o'clock. The building stores cold for some hours. Reward:
    minus the cost per hour, of energy and of the temperature above the limit.
    """

    observation_space = Box(-10, 10, (6,))
    action_space = Box(0, 1, (2,))

    def __init__(self, summer: float = 22.0) -> None:
        self.summer = summer  # mean outside temperature

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hour = 24 * self.np_random.random()
        self.air = self.walls = 24.0
        self.weather = self.surge = 0.0
        return self.observation(), {}

    def step(self, action):
        fan, chiller = np.clip(action, 0, 1)
        outside, load = self.outside(), self.load()
        removed = 0.25 * fan * max(self.air - outside, 0) + 2.0 * chiller  # MW
        power = 0.2 * fan**3 + 2.0 * chiller / np.clip(6 - 0.12 * (outside - 10), 2, 6)
        price = 120 if 8 <= self.hour < 20 else 60  # for a MWh
        stored = 0.3 * (self.air - self.walls)  # MW into the walls
        self.air += HOURS * (load - removed - stored) / 0.3
        self.walls += HOURS * stored / 1.5
        energy, heat = price * power, 50 * max(self.air - LIMIT, 0)
        self.hour = (self.hour + HOURS) % 24
        noise = self.np_random.normal(size=2)
        self.weather = 0.98 * self.weather + 0.5 * noise[0]
        self.surge = 0.9 * self.surge + 0.05 * noise[1]
        costs = {"energy": energy, "heat": heat}
        return self.observation(), -(energy + heat), False, False, {"costs": costs}

    def outside(self) -> float:
        """Warmest at 15 o'clock."""
        return self.summer + 7 * np.cos(2 * np.pi * (self.hour - 15) / 24) + self.weather

    def load(self) -> float:
        """MW of the computers; highest at 20 o'clock."""
        return max(1 + 0.2 * np.cos(2 * np.pi * (self.hour - 20) / 24) + self.surge, 0.3)

    def observation(self) -> NDArray[np.float32]:
        day = 2 * np.pi * self.hour / 24
        inside = (self.air - 24) / 3, (self.walls - 24) / 3
        around = (self.outside() - 22) / 8, (self.load() - 1) / 0.2
        return np.clip(np.float32([*inside, *around, np.sin(day), np.cos(day)]), -10, 10)


def thermostat(fans_from: float, chiller_from: float) -> Rule:
    """Fans and chiller start at a temperature and are fully on two degrees above it."""

    def rule(env: Cooling) -> NDArray[np.float32]:
        fan = (env.air - fans_from) / 2 if env.outside() < env.air else 0.0
        return np.clip(np.float32([fan, (env.air - chiller_from) / 2]), 0, 1)

    return rule


def hourly_cost(rule: Rule, steps: int, seed: int) -> float:
    """Of a rule, after two days that do not count."""
    env, warmup = Cooling(), 192
    env.reset(seed=seed)
    rewards = [env.step(rule(env))[1] for _ in range(warmup + steps)]
    return -float(np.mean(rewards[warmup:]))


def best_thermostat(steps: int) -> tuple[float, float]:
    """By a search on a seed of its own."""
    pairs = itertools.product((22, 23, 24, 25, 26), (24, 25, 26, 27))
    return min(pairs, key=lambda pair: hourly_cost(thermostat(*pair), steps, seed=1000))


def run(given: argparse.Namespace) -> None:
    pair = best_thermostat(given.search_steps)
    cost = hourly_cost(thermostat(*pair), given.eval_steps, seed=2000)
    print(f"thermostat: fans from {pair[0]}, chiller from {pair[1]} degrees: {cost:.1f} an hour")
    for seed in range(given.seed, given.seed + given.seeds):
        agent = APO(
            Cooling,
            seed=seed,
            costs=["energy", "heat"],
            gae_lambda=0.97,  # of steps of a quarter of an hour: about a day
            rollout_steps=given.rollout_steps,
            num_workers=0,  # a step takes microseconds: no processes of their own
        )
        agent.learn(given.steps)
        found = agent.evaluate(given.eval_steps, seed=2000)
        costs = ", ".join(f"{name} {cost.rate:.1f}" for name, cost in found.costs.items())
        print(
            f"APO, seed {seed}: {-found.average_reward:.1f} an hour"
            f" [{-found.high:.1f}, {-found.low:.1f}] ({costs});"
            f" {found.warmup} steps of warm-up left out"
        )


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120_000)
    parser.add_argument("--rollout-steps", type=int, default=1000, help="of each of 2 plants")
    parser.add_argument("--eval-steps", type=int, default=40_000)
    parser.add_argument("--search-steps", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    run(parsed())
