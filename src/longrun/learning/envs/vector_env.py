"""A Gymnasium VectorEnv as rows: each step is a transition of some of its environments.

Its environments start new episodes by themselves, in one of three ways, which `metadata` names:

- NEXT_STEP: the step after an end ignores the action and returns the new episode's first
  observation. It is no transition, and is not counted.
- SAME_STEP: the step that ends an episode returns the new episode's first observation, and the true
  successor as `final_obs`.
- DISABLED: nothing starts until `reset` is called for those that have ended.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import iterate

from longrun.base.errors import InputError
from longrun.learning.envs.space_forms import action_maker, row_writer
from longrun.learning.envs.spaces import Array, Spaces, form_of


class VectorStep(NamedTuple):
    """What a step has done, in rows of all N environments."""

    counted: Array
    """[N], False where the step was the start of an episode and not a transition"""
    reward: Array
    """[N]"""
    terminated: Array
    truncated: Array
    """[N] each"""
    successor: Array
    """[N, D], the true one"""


class VectorRows:
    """A VectorEnv with flat observations and actions."""

    def __init__(self, env: VectorEnv[Any, Any, Any], spaces: Spaces) -> None:
        self._env = env
        self._write = row_writer(form_of(env.single_observation_space))
        self._read = action_maker(form_of(env.single_action_space))
        self._mode = autoreset_mode(env)
        self.obs: Array = np.zeros((env.num_envs, spaces.observation_size), np.float32)
        """[N, D], present observations; of no use for an environment that is not `ready`"""
        self.ready: Array = np.ones(env.num_envs, bool)
        """[N], False while an environment waits for the step that starts its next episode"""

    def reset(self, seed: int) -> None:
        """Start an episode of each."""
        observations, _ = self._env.reset(seed=seed)
        self.obs = self._rows(observations)
        self.ready[:] = True

    def step(self, action: Array) -> VectorStep:
        """A step with actions [N, A], which are ignored where an environment is not ready."""
        given = np.array([self._read(row) for row in action])
        observations, reward, terminated, truncated, info = self._env.step(given)
        counted = self.ready.copy()
        # Copies, since a VectorEnv may use its arrays again.
        terminated, truncated = (np.array(x, bool) & counted for x in (terminated, truncated))
        done = terminated | truncated
        self.obs = self._rows(observations)
        successor = self.obs
        if self._mode == AutoresetMode.NEXT_STEP:
            self.ready = ~done
        elif done.any():
            successor = self.obs.copy()
            if self._mode == AutoresetMode.SAME_STEP:
                self._write_final(info, done, successor)
            else:
                again, _ = self._env.reset(options={"reset_mask": done})
                self.obs = np.where(done[:, None], self._rows(again), self.obs)
        rewards = np.array(reward, np.float64)
        return VectorStep(counted, rewards, terminated, truncated, successor)

    def _rows(self, observations: Any) -> Array:
        """[N, D] in a new array."""
        rows = np.zeros_like(self.obs)
        for observation, row in zip(
            iterate(self._env.observation_space, observations), rows, strict=True
        ):
            self._write(observation, row)
        return rows

    def _write_final(self, info: dict[str, Any], done: Array, successor: Array) -> None:
        if "final_obs" not in info:
            raise InputError(
                "a VectorEnv with autoreset_mode SAME_STEP must give 'final_obs' in its info when"
                " an episode ends"
            )
        for i in np.flatnonzero(done):
            self._write(info["final_obs"][i], successor[i])


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """How the environment starts new episodes. Raises InputError if it does not say."""
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise InputError(
            f"a VectorEnv must say how it starts episodes: metadata['autoreset_mode'] is {mode!r}"
            " and must be one of gymnasium.vector.AutoresetMode"
        )
    return mode
