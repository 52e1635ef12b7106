"""Some environments of some replicas, and the loops that run them: NumPy only, no JAX.

A worker process owns one shard, or the parent does when there are no workers. Rollouts are written
straight into the arrays that the learner reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from longrun.learning.envs import seeding, watchdog
from longrun.learning.envs.costs import READY, info_cost, ready_cost
from longrun.learning.envs.factories import close_env, make_env
from longrun.learning.envs.flat_spaces import advice, as_given
from longrun.learning.envs.numpy_policy import NumpyPolicy, draw_noise
from longrun.learning.envs.plan import Plan
from longrun.learning.envs.spaces import Array
from longrun.learning.envs.stepper import Chain, make_stepper
from longrun.learning.envs.watchdog import TURN, Heartbeat
from longrun.learning.envs.worker_part import Part, check_finite, failure, parts_of

FACTS = ("obs", "action", "reward", "next_obs", "terminated", "truncated", "costs")
"""The shared arrays that the steps of a rollout are written to."""


class Shard:
    """The environments of one worker, made when they are first needed."""

    def __init__(self, plan: Plan, arrays: dict[str, Array], worker: int, num_workers: int) -> None:
        self._plan = plan
        self._arrays = arrays
        self.heartbeat = Heartbeat(arrays["heartbeat"][worker])
        self._parts, self._eval_parts = (
            {p.replica: p for p in parts_of(worker, num_workers, len(plan.seeds), envs)}
            for envs in (plan.num_envs, plan.eval_envs)
        )
        self._policies = [
            NumpyPolicy(plan.acting, plan.spaces, weights) for weights in arrays["weights"]
        ]
        columns = list(enumerate(plan.costs))
        self._info_costs = [(k, name) for k, name in columns if name not in READY]
        self._ready_costs = [(k, name) for k, name in columns if name in READY]
        self._chains: dict[int, Any] = {}
        """what `_begin` has returned, by replica"""
        self._evaluators: dict[int, Any] = {}
        """what `_make` has returned for evaluations"""
        self._opened: list[Any] = []

    def rollout(self, replica: int, iteration: int) -> None:
        """T steps of this shard's environments of `replica`, from their present states."""
        part, chains = self._parts[replica], self._chains[replica]
        facts = tuple(self._arrays[name][replica][:, part.rows] for name in FACTS)
        obs = facts[0]
        obs[0] = obs[-1]
        self.heartbeat.begin(watchdog.ROLLOUT, part, iteration)
        self._run(part, chains, facts, seeding.NOISE, iteration)
        self._save_states(part, chains)

    def evaluate(self, replica: int, iteration: int) -> None:
        """S steps of the policy in environments of their own, from a reset each."""
        part, plan = self._eval_parts[replica], self._plan
        names, count = ("eval_reward", "eval_ended", "eval_costs"), part.last - part.first
        reward, ended, costs = (self._arrays[n][replica][:, part.rows] for n in names)
        if replica not in self._evaluators:
            self._evaluators[replica] = self._make(part)
        steps, spaces = plan.eval_steps, plan.spaces
        obs = _one_row(steps + 1, (count, spaces.observation_size), np.float32)
        action = _one_row(steps, (count, spaces.action_size), spaces.action_dtype)
        terminated, truncated = np.zeros((2, steps, count), bool)
        facts = obs, action, reward, obs[1:], terminated, truncated, costs
        resets, noise = plan.eval_purposes
        stream = (plan.seeds[replica], resets, iteration)
        chains = self._begin(part, self._evaluators[replica], stream, [0] * count, obs[0])
        check_finite(part, iteration, ("evaluation's observation", obs[:1]))
        self.heartbeat.begin(watchdog.EVALUATION, part, iteration)
        purpose = noise if plan.eval_noise else None
        self._run(part, chains, facts, purpose, iteration, evaluates=True)
        ended[:] = terminated | truncated

    def _run(
        self,
        part: Part,
        chains: Any,
        facts: tuple[Array, ...],
        purpose: int | None,
        iteration: int,
        evaluates: bool = False,
    ) -> None:
        """T steps from `obs[0]` on, written to `FACTS`, with noise of this purpose or none."""
        obs, action, reward, next_obs, terminated, truncated, costs = facts
        noise = None if purpose is None else self._noise(part, iteration, purpose, len(reward))
        of_evaluation = "evaluation's " if evaluates else ""
        act = self._policies[part.replica].act
        beat, turn = self.heartbeat.row, 0
        t = i = 0
        try:
            for t in range(len(reward)):
                action[t] = act(obs[t], None if noise is None else noise[t])
                given = self._given(action[t])
                for i, chain in enumerate(chains):
                    beat[TURN] = turn
                    turn += 1
                    successor = next_obs[t, i]
                    after = chain.stepper.step(given[i], successor)
                    reward[t, i], terminated[t, i], truncated[t, i] = after
                    obs[t + 1, i] = successor
                    for k, name in self._info_costs:
                        costs[t, i, k] = info_cost(chain.stepper.info, name)
                    if after[1] or after[2]:
                        chain.start_episode(obs[t + 1, i])
                self._write_ready(costs[t], action[t], given, terminated[t])
                if evaluates:  # at once: a NaN makes the actions and rewards after it NaN as well
                    now = (f"{of_evaluation}observation", obs[t + 1 : t + 2])
                    check_finite(part, iteration, now, step=t)
        except BaseException as error:  # such as that of sys.exit()
            if not evaluates:  # an earlier NaN of the environment may have made the action NaN
                seen = [("observation", next_obs[:t]), ("observation", obs[: t + 1])]
                check_finite(part, iteration, *seen)
            where = f"step {t} of {'the evaluation after ' if evaluates else ''}iteration"
            more = self._advice(action[t, i])
            raise failure(part, i, f"{where} {iteration}", error, more) from error
        seen = [] if evaluates else [("observation", next_obs), ("observation", obs)]
        seen.append((f"{of_evaluation}reward", reward))
        named = [(f"cost '{name}'", costs[..., k]) for k, name in enumerate(self._plan.costs)]
        check_finite(part, iteration, *seen, *named)

    def restart(self, replica: int, episodes: Sequence[int]) -> None:
        """Start the given episode of each of the replica's N environments.

        One with a state in the array `env_state` is brought there; if it strays, which is marked,
        it starts the next episode.
        """
        part = self._parts[replica]
        stream = (self._plan.seeds[replica], seeding.EPISODE)
        obs = self._arrays["obs"][replica][-1, part.rows]
        chains = self._begin(part, self._make(part), stream, episodes[part.rows], obs)
        self._chains[replica] = chains
        names = ("env_state", "env_state_size", "strayed")
        states, sizes, strayed = (self._arrays[n][replica][part.rows] for n in names)
        for i in np.flatnonzero(sizes):
            one = Part(replica, part.first + int(i), part.first + int(i) + 1)
            self.heartbeat.begin(watchdog.RESTORING, one)
            if not chains[i].restores(states[i, : sizes[i]].tobytes()):
                strayed[i] = True
                self._start_episodes(one, [chains[i]], obs[i : i + 1])

    def close(self) -> None:
        with ExitStack() as closing:  # it closes all, whatever one of them raises
            while self._opened:
                closing.callback(close_env, self._opened.pop())

    def _save_states(self, part: Part, chains: list[Chain]) -> None:
        """Write the states of environments that can save them; a size of 0 says there is none."""
        names, room = ("env_state", "env_state_size"), self._plan.state_bytes
        states, sizes = (self._arrays[n][part.replica][part.rows] for n in names)
        for i, chain in enumerate(chains if room else []):
            try:
                state = chain.stepper.save_state()
            except BaseException as error:
                raise failure(part, i, "its get_state", error) from error
            sizes[i] = len(state) if len(state) <= room else 0
            states[i, : sizes[i]] = np.frombuffer(state, np.uint8)[: sizes[i]]

    def _start_episodes(self, part: Part, chains: list[Chain], obs: Array) -> None:
        self.heartbeat.begin(watchdog.RESETTING, part)
        for i, chain in enumerate(chains):
            self.heartbeat.row[TURN] = i
            try:
                chain.start_episode(obs[i])
            except BaseException as error:  # such as that of sys.exit()
                raise failure(part, i, "its reset", error) from error

    def _begin(
        self, part: Part, made: Any, stream: tuple[int, ...], episodes: Sequence[int], obs: Array
    ) -> Any:
        """Start these episodes, from seeds of this stream; first observations go to `obs` [n, D].

        `made` is what `_make` has returned.
        """
        chains = [
            Chain(stepper, (*stream, part.first + i), self.heartbeat, episode)
            for i, (stepper, episode) in enumerate(zip(made, episodes, strict=True))
        ]
        self._start_episodes(part, chains, obs)
        return chains

    def _make(self, part: Part) -> Any:
        """A stepper of a new environment for each one of the part."""
        self.heartbeat.begin(watchdog.MAKING, part)
        steppers = []
        for i in range(part.last - part.first):
            self.heartbeat.row[TURN] = i
            self._opened.append(make_env(self._plan.factory))
            steppers.append(make_stepper(self._opened[-1], [name for _, name in self._info_costs]))
        return steppers

    def _noise(self, part: Part, iteration: int, purpose: int, steps: int) -> Array:
        """[steps, n, A], each environment's from its own stream."""
        streams = [
            seeding.generator(self._plan.seeds[part.replica], purpose, i, iteration)
            for i in range(part.first, part.last)
        ]
        noise = [draw_noise(rng, self._plan.spaces, steps) for rng in streams]
        return np.stack(noise, axis=1)

    def _write_ready(self, out: Array, sampled: Array, given: Array, terminated: Array) -> None:
        """The ready-made costs of one step of n environments, to columns of `out` [n, K]."""
        for k, name in self._ready_costs:
            spaces = self._plan.spaces
            out[:, k] = ready_cost(np, name, spaces, sampled, given, terminated)

    def _given(self, action: Array) -> Array:
        """Actions [n, A] as the environments get them; the learner keeps the sampled ones."""
        given: Array = as_given(np, self._plan.spaces, self._plan.acting.action_bounds, action)
        return given

    def _advice(self, action: Array) -> str:
        return advice(self._plan.spaces, self._plan.acting.action_bounds, action)


def _one_row(steps: int, shape: tuple[int, ...], dtype: type) -> Array:
    """[steps, *shape], for what only the next step needs: all rows are the same memory."""
    row: Array = np.zeros(shape, dtype)
    return np.lib.stride_tricks.as_strided(row, (steps, *shape), (0, *row.strides))
