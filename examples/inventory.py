"""A warehouse and three shops: orders in a multi-echelon inventory.

What one learns from it: a Gymnasium environment of one's own whose actions are several choices at
once (`MultiDiscrete`) with masks that forbid what does not fit; a comparison with the rule that
operations research would try first, order up to a base stock, whose levels and period come from a
small search.

It takes about 100 seconds of processor time. It prints (seeds 0 to 2):

    base stock [20, 5, 7, 8], shops every 2 days: 10.88 a day
    APO, seed 0: 9.97 a day [9.93, 10.00]
    APO, seed 1: 9.64 a day [9.59, 9.69]
    APO, seed 2: 9.73 a day [9.69, 9.78]

The levels of the rule are the same on every weekday, and the demand is not.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete
from numpy.typing import NDArray

from longrun import APO

DEMAND = np.array([1.0, 1.5, 2.0])
"""mean units a day that customers want in each shop"""
WEEK = np.array([0.6, 0.6, 0.8, 0.8, 1.2, 1.8, 1.2])
"""times this, from Monday to Sunday"""
ROOM = np.array([30, 10, 12, 15])
"""units that warehouse and shops have room for, those on their way included"""
MOST = np.array([15, 6, 8, 10])
"""units of an order at most"""
HOLDING = np.array([0.1, 0.3, 0.3, 0.3])
"""of a unit for a day"""
LOST, TRUCK, SHIP = 8.0, 4.0, 6.0
"""costs of a sale lost, of a day with deliveries to any shops, of an order of the warehouse"""
Rule = Callable[["Inventory"], NDArray[np.int64]]


class Inventory(gymnasium.Env):
    """Each day: order, deliver what was ordered, sell, pay.

    The warehouse gets its orders after two days, the shops theirs on the next morning, as far as
    the warehouse has them. One truck serves all shops: orders should go together. Reward: minus the
    cost of the day.
    """

    action_space = MultiDiscrete(MOST + 1)
    observation_space = Dict(
        action_mask=MultiBinary(int((MOST + 1).sum())), observation=Box(-1, 2, (8,))
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock = np.array([12, 4, 5, 6])
        self.coming = np.zeros(2, int)  # to the warehouse, tomorrow and the day after
        self.day = 0
        return self.observation(), {}

    def step(self, action):
        order = np.minimum(action, ROOM - self.position())
        cost = SHIP * (order[0] > 0) + TRUCK * bool(order[1:].any())
        for shop in self.np_random.permutation(3) + 1:  # if there are too few units: by lot
            sent = min(order[shop], self.stock[0])
            self.stock[0] -= sent
            self.stock[shop] += sent
        self.stock[0] += self.coming[0]
        self.coming = np.array([self.coming[1], order[0]])
        demand = self.np_random.poisson(DEMAND * WEEK[self.day % 7])
        sold = np.minimum(demand, self.stock[1:])
        self.stock[1:] -= sold
        self.day += 1
        cost += LOST * (demand - sold).sum() + HOLDING @ self.stock
        return self.observation(), -float(cost), False, False, {}

    def position(self) -> NDArray[np.int64]:
        """[4] units that are there or on their way."""
        return self.stock + np.array([self.coming.sum(), 0, 0, 0])

    def observation(self) -> dict[str, NDArray]:
        free = np.minimum(ROOM - self.position(), MOST)
        mask = np.concatenate([np.arange(m + 1) <= f for m, f in zip(MOST, free, strict=True)])
        levels = [*self.stock / ROOM, *self.coming / MOST[0]]
        week = 2 * np.pi * self.day / 7
        seen = np.float32([*(2 * np.array(levels) - 1), np.sin(week), np.cos(week)])
        return {"action_mask": mask.astype(np.int8), "observation": seen}


def base_stock(levels: NDArray[np.int64], period: int) -> Rule:
    """Order up to the levels [4]; the shops every `period` days."""

    def rule(env: Inventory) -> NDArray[np.int64]:
        order = np.clip(levels - env.position(), 0, MOST)
        order[1:] *= env.day % period == 0
        return order

    return rule


def daily_cost(rule: Rule, steps: int, seed: int) -> float:
    """Of a rule, after 30 days that do not count."""
    env = Inventory()
    env.reset(seed=seed)
    rewards = [env.step(rule(env))[1] for _ in range(30 + steps)]
    return -float(np.mean(rewards[30:]))


def best_base_stock(steps: int) -> tuple[NDArray[np.int64], int]:
    """Levels [4] and period, by a search on a seed of its own: a level of the warehouse, the days
    that those of the shops should last, units besides."""
    tried = [
        (np.minimum([up, *np.ceil(days * DEMAND + more).astype(int)], ROOM), period)
        for up, days, more, period in itertools.product(
            (16, 20, 24, 28), (1, 2, 3, 4), (1, 2, 3), (1, 2, 3)
        )
    ]
    return min(tried, key=lambda each: daily_cost(base_stock(*each), steps, seed=1000))


def run(given: argparse.Namespace) -> None:
    levels, period = best_base_stock(given.search_steps)
    cost = daily_cost(base_stock(levels, period), given.eval_steps, seed=2000)
    print(f"base stock {levels.tolist()}, shops every {period} days: {cost:.2f} a day")
    for seed in range(given.seed, given.seed + given.seeds):
        agent = APO(
            Inventory,
            seed=seed,
            learning_rate=1e-3,
            minibatch_size=200,
            rollout_steps=given.rollout_steps,
            num_workers=0,  # a step takes microseconds: no processes of their own
        )
        agent.learn(given.steps)
        found = agent.evaluate(given.eval_steps, seed=2000)
        print(
            f"APO, seed {seed}: {-found.average_reward:.2f} a day"
            f" [{-found.high:.2f}, {-found.low:.2f}]"
        )


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=160_000)
    parser.add_argument("--rollout-steps", type=int, default=1000, help="of each of 2 chains")
    parser.add_argument("--eval-steps", type=int, default=40_000)
    parser.add_argument("--search-steps", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    run(parsed())
