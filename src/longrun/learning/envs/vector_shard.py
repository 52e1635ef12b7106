"""The environments of replicas that each are one Gymnasium VectorEnv; the commands of `Shard`.

Environments of a VectorEnv take their steps together, but not every step is a transition of each.
So each has a time of its own, and a rollout ends when all have T transitions; what some have beyond
that is simulated and not learned from. They start new episodes by themselves, in one of three ways,
which `metadata` names:

- NEXT_STEP: the step after an end ignores the action and returns the new episode's first
  observation. It is no transition, and is not counted.
- SAME_STEP: the step that ends an episode returns the new episode's first observation, and the true
  successor as `final_obs`.
- DISABLED: nothing starts until `reset` is called for those that have ended.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import iterate

from longrun.base.errors import InputError
from longrun.learning.envs import seeding, watchdog
from longrun.learning.envs.factories import make_env
from longrun.learning.envs.flat_spaces import action_maker, row_writer
from longrun.learning.envs.numpy_policy import draw_noise
from longrun.learning.envs.plan import Plan
from longrun.learning.envs.shard import Shard
from longrun.learning.envs.spaces import Array, Spaces, form_of
from longrun.learning.envs.watchdog import TURN
from longrun.learning.envs.worker_part import Part, check_finite, failure


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

    def step(self, action: Array) -> tuple[Array, ...]:
        """A step with actions [N, A], which are ignored where an environment is not ready.

        Returns whether it was a transition of each, and not the start of an episode; reward, true
        successor [N, D], terminated and truncated.
        """
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
                if "final_obs" not in info:
                    raise InputError(
                        "a VectorEnv with autoreset_mode SAME_STEP must give 'final_obs' in its"
                        " info when an episode ends"
                    )
                for i in np.flatnonzero(done):
                    self._write(info["final_obs"][i], successor[i])
            else:
                again, _ = self._env.reset(options={"reset_mask": done})
                self.obs = np.where(done[:, None], self._rows(again), self.obs)
        return counted, np.array(reward, np.float64), successor, terminated, truncated

    def _rows(self, observations: Any) -> Array:
        """[N, D] in a new array."""
        rows, each = np.zeros_like(self.obs), iterate(self._env.observation_space, observations)
        for observation, row in zip(each, rows, strict=True):
            self._write(observation, row)
        return rows


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """How the environment starts new episodes. Raises InputError if it does not say."""
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise InputError(
            f"a VectorEnv must say how it starts episodes: metadata['autoreset_mode'] is {mode!r}"
            " and must be one of gymnasium.vector.AutoresetMode"
        )
    return mode


class VectorShard(Shard):
    """All replicas, each with a VectorEnv for training and one for evaluation."""

    def _make(self, part: Part) -> VectorRows:
        self.heartbeat.begin(watchdog.MAKING, part)
        self._opened.append(make_env(self._plan.factory))
        return VectorRows(self._opened[-1], self._plan.spaces)

    def _begin(
        self, part: Part, made: Any, stream: tuple[int, ...], episodes: Sequence[int], obs: Array
    ) -> Any:
        """Start an episode of each, with another seed after more of them."""
        self.heartbeat.begin(watchdog.RESETTING, part)
        try:
            made.reset(seeding.episode_seed(*stream, 0, sum(episodes)))
        except BaseException as error:  # such as that of sys.exit()
            raise failure(part, None, "its reset", error) from error
        obs[:] = made.obs
        return made

    def _run(
        self,
        part: Part,
        chains: VectorRows,
        facts: tuple[Array, ...],
        purpose: int | None,
        iteration: int,
        evaluates: bool = False,
    ) -> None:
        """Step until each environment has T transitions.

        Errors name the steps of the VectorEnv, some of which may be no transitions.
        """
        obs, _, reward, next_obs, _, _, costs = facts
        act, rows, steps, count = self._policies[part.replica].act, chains, len(reward), part.last
        of_evaluation = "evaluation's " if evaluates else ""
        what = f"{of_evaluation}observation"
        check_finite(part, iteration, (what, rows.obs[None]))
        seed, spaces = self._plan.seeds[part.replica], self._plan.spaces
        stream = None if purpose is None else seeding.generator(seed, purpose, 0, iteration)
        times: Array = np.zeros(count, np.int64)
        arrived: Array = np.zeros(count, bool)
        beat = self.heartbeat.row
        for number in itertools.count():
            there = rows.ready & (times == steps) & ~arrived
            obs[steps, there] = rows.obs[there]
            arrived |= there
            if arrived.all():
                break
            beat[TURN] = number * count
            now = rows.obs
            drawn = act(now, None if stream is None else draw_noise(stream, spaces, count))
            given = self._given(drawn)
            try:
                counted, paid, successor, terminated, truncated = rows.step(given)
            except BaseException as error:  # such as that of sys.exit()
                after = "the evaluation after " if evaluates else ""
                place = f"step {number} of {after}iteration {iteration}"
                raise failure(part, None, place, error, self._advice(drawn)) from error
            check_finite(part, iteration, (what, rows.obs[None]), step=number)
            charged: Array = np.zeros((count, costs.shape[-1]))
            self._write_ready(charged, drawn, given, terminated)
            envs = np.flatnonzero(counted & (times < steps))
            found = (now, drawn, paid, successor, terminated, truncated, charged)
            for array, values in zip(facts, found, strict=True):
                array[times[envs], envs] = values[envs]
            times[envs] += 1
        seen = [] if evaluates else [("observation", next_obs), ("observation", obs)]
        seen.append((f"{of_evaluation}reward", reward))
        check_finite(part, iteration, *seen)


def make_shard(plan: Plan, arrays: dict[str, Array], worker: int, num_workers: int) -> Shard:
    """The environments of one worker, of either kind."""
    kind = VectorShard if plan.is_vector else Shard
    return kind(plan, arrays, worker, num_workers)
