"""An MDP as a Gymnasium environment, to be simulated and learned from; episodes never end."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from longrun.exact.tabular.gymnasium_tables import Table, transition_table
from longrun.exact.tabular.mdp import MDP, Array

MOST_ONE_HOT = 2000
"""States of a single side up to which each is an input of its own; more are one number."""


class MDPEnv(gymnasium.Env[Any, Any]):
    """Steps through an MDP; rewards are expected rewards.

    States arranged as a box (`mdp.shape`), such as lengths of queues, are observed as coordinates
    from 0 to 1, others as Discrete. Where not every action is available everywhere, observations
    are a Dict of `action_mask` and `observation`. `info["costs"]` has the model's costs. `P` is
    Gymnasium's transition table.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (Gymnasium's own declaration)

    def __init__(self, mdp: MDP) -> None:
        self.mdp = mdp
        self.name = mdp.name or "MDP"
        self.initial_state_distrib = mdp.initial
        self.state = 0
        self._is_box = len(mdp.shape) > 1 or mdp.num_states > MOST_ONE_HOT
        place: spaces.Space[Any] = spaces.Discrete(mdp.num_states)
        if self._is_box:
            place = spaces.Box(0, 1, (len(mdp.shape),), np.float32)
        self._is_masked = not mdp.available.all()
        mask = spaces.MultiBinary(mdp.num_actions)
        self.observation_space = (
            spaces.Dict(action_mask=mask, observation=place) if self._is_masked else place
        )
        self.action_space = spaces.Discrete(mdp.num_actions)

    @cached_property
    def P(self) -> Table:
        """P[state][action] = [(probability, successor, reward, terminated)]"""
        return transition_table(self.mdp)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self._drawn(self.mdp.initial)
        return self._observed(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        mdp, chosen = self.mdp, int(action)
        if not mdp.available[self.state, chosen]:
            raise ValueError(f"action {chosen} is not available in state {self.state}")
        reward = float(mdp.rewards[self.state, chosen])
        costs = {name: float(cost[self.state, chosen]) for name, cost in mdp.costs.items()}
        row = chosen * mdp.num_states + self.state
        if mdp.is_sparse:
            columns = slice(*mdp.kernel.indptr[row : row + 2])
            self.state = int(mdp.kernel.indices[columns][self._drawn(mdp.kernel.data[columns])])
        else:
            self.state = self._drawn(mdp.kernel[row])
        return self._observed(), reward, False, False, {"costs": costs} if costs else {}

    def get_state(self) -> int:
        return self.state

    def set_state(self, state: int) -> None:
        self.state = state

    def _drawn(self, law: Array) -> int:
        """An index drawn from probabilities; rounding may leave their sum a little below 1."""
        place = np.searchsorted(np.cumsum(law), self.np_random.random(), side="right")
        return min(int(place), int(np.flatnonzero(law)[-1]))

    def _observed(self) -> Any:
        place: Any = np.int64(self.state)
        if self._is_box:
            sides = np.maximum(np.array(self.mdp.shape) - 1, 1)
            place = (np.unravel_index(self.state, self.mdp.shape) / sides).astype(np.float32)
        if not self._is_masked:
            return place
        return {"action_mask": self.mdp.available[self.state].astype(np.int8), "observation": place}
