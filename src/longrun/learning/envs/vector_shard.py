"""The environments of replicas that each are one Gymnasium VectorEnv; the commands of `Shard`.

Environments of a VectorEnv take their steps together, but not every step is a transition of each
(see `vector_env`). So each has a time of its own, and a rollout ends when all have T transitions;
what some have beyond that is simulated and not learned from.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from longrun.learning.envs import seeding, watchdog
from longrun.learning.envs.factories import make_env
from longrun.learning.envs.numpy_policy import draw_noise
from longrun.learning.envs.plan import Plan
from longrun.learning.envs.shard import Shard
from longrun.learning.envs.spaces import Array
from longrun.learning.envs.vector_env import VectorRows, VectorStep
from longrun.learning.envs.watchdog import TURN
from longrun.learning.envs.worker_part import Part, check_finite, failure

Record = Callable[[Array, Array, Array, Array, VectorStep], None]
"""(environments [m], their times [m], observations [N, D], drawn actions [N, A], the step)"""


class VectorShard(Shard):
    """All replicas, each with a VectorEnv for training and one for evaluation."""

    def __init__(self, plan: Plan, arrays: dict[str, Array], worker: int, num_workers: int) -> None:
        super().__init__(plan, arrays, worker, num_workers)
        self._training: dict[int, VectorRows] = {}
        self._evaluating: dict[int, VectorRows] = {}

    def rollout(self, replica: int, iteration: int) -> None:
        """T transitions of each environment, from their present states."""
        rows, steps = self._training[replica], self._plan.rollout_steps
        names = ("obs", "action", "reward", "next_obs", "terminated", "truncated")
        obs, action, reward, next_obs, terminated, truncated = (
            self._arrays[name][replica] for name in names
        )

        def record(envs: Array, times: Array, now: Array, drawn: Array, step: VectorStep) -> None:
            obs[times, envs], action[times, envs] = now[envs], drawn[envs]
            reward[times, envs], next_obs[times, envs] = step.reward[envs], step.successor[envs]
            terminated[times, envs] = step.terminated[envs]
            truncated[times, envs] = step.truncated[envs]
            self._write_costs("costs", replica, envs, times, drawn, step)

        part = Part(replica, 0, self._plan.num_envs)
        self.heartbeat.begin(watchdog.ROLLOUT, part, iteration)
        noise = self._draws(part, seeding.NOISE, iteration)
        obs[steps] = self._step_all(part, rows, steps, noise, record, iteration)
        seen = [("observation", next_obs), ("observation", obs), ("reward", reward)]
        check_finite(part, iteration, *seen)

    def evaluate(self, replica: int, iteration: int) -> None:
        """S transitions of each environment of another VectorEnv, from a reset."""
        plan = self._plan
        reward, ended = (self._arrays[n][replica] for n in ("eval_reward", "eval_ended"))
        part = Part(replica, 0, plan.eval_envs)
        if replica not in self._evaluating:
            self._evaluating[replica] = self._open(part)
        rows = self._evaluating[replica]
        stream = (plan.seeds[replica], plan.eval_purposes[0], iteration, 0)
        self._reset(part, rows, seeding.episode_seed(*stream, 0))

        def record(envs: Array, times: Array, now: Array, drawn: Array, step: VectorStep) -> None:
            reward[times, envs] = step.reward[envs]
            ended[times, envs] = (step.terminated | step.truncated)[envs]
            self._write_costs("eval_costs", replica, envs, times, drawn, step)

        self.heartbeat.begin(watchdog.EVALUATION, part, iteration)
        noise = self._draws(part, plan.eval_purposes[1], iteration) if plan.eval_noise else None
        self._step_all(part, rows, plan.eval_steps, noise, record, iteration, evaluates=True)
        check_finite(part, iteration, ("evaluation's reward", reward))

    def restart(self, replica: int, episodes: Sequence[int]) -> None:
        """Start episodes, with another seed after more of them."""
        part = Part(replica, 0, self._plan.num_envs)
        rows = self._training[replica] = self._open(part)
        stream = (self._plan.seeds[replica], seeding.EPISODE, 0)
        self._reset(part, rows, seeding.episode_seed(*stream, sum(episodes)))
        self._arrays["obs"][replica][-1] = rows.obs

    def replay(self, replica: int, counts: Sequence[int]) -> None:
        """Nothing is repeated: one environment cannot be stepped without the others."""
        self._arrays["strayed"][replica] |= np.array(counts) > 0

    def load_states(self, replica: int) -> None:
        """There are none."""

    def renew(self, replica: int) -> None:
        """All are at the start of an episode anyway, after `restart`."""
        self._arrays["obs"][replica][-1] = self._training[replica].obs

    def _step_all(
        self,
        part: Part,
        rows: VectorRows,
        steps: int,
        noise: Callable[[], Array] | None,
        record: Record,
        iteration: int,
        evaluates: bool = False,
    ) -> Array:
        """Step until each environment has `steps` transitions; the observations after them.

        Errors name the steps of the VectorEnv, some of which may be no transitions.
        """
        act, count = self._policies[part.replica].act, part.last
        what = "evaluation's observation" if evaluates else "observation"
        where = f"{'the evaluation after ' if evaluates else ''}iteration {iteration}"
        check_finite(part, iteration, (what, rows.obs[None]))
        times: Array = np.zeros(count, np.int64)
        after = np.zeros_like(rows.obs)
        arrived: Array = np.zeros(count, bool)
        beat = self.heartbeat.row
        for number in itertools.count():
            there = rows.ready & (times == steps) & ~arrived
            after[there] = rows.obs[there]
            arrived |= there
            if arrived.all():
                break
            beat[TURN] = number * count
            now = rows.obs
            drawn = act(now, None if noise is None else noise())
            given = self._given(drawn)
            try:
                step = rows.step(given)
            except BaseException as error:  # such as that of sys.exit()
                place = f"step {number} of {where}"
                raise failure(part, None, place, error, self._advice(drawn)) from error
            check_finite(part, iteration, (what, rows.obs[None]), step=number)
            envs = np.flatnonzero(step.counted & (times < steps))
            record(envs, times[envs], now, drawn, step)
            times[envs] += 1
        return after

    def _write_costs(
        self, array: str, replica: int, envs: Array, times: Array, drawn: Array, step: VectorStep
    ) -> None:
        """The ready-made costs, which are all that a VectorEnv has."""
        costs: Array = np.zeros((len(drawn), len(self._plan.costs)))
        self._write_ready(costs, drawn, self._given(drawn), step.terminated)
        self._arrays[array][replica][times, envs] = costs[envs]

    def _draws(self, part: Part, purpose: int, iteration: int) -> Callable[[], Array]:
        """A function that draws noise [N, A] for one step after another."""
        stream = seeding.generator(self._plan.seeds[part.replica], purpose, 0, iteration)
        return lambda: draw_noise(stream, self._plan.spaces, part.last)

    def _open(self, part: Part) -> VectorRows:
        self.heartbeat.begin(watchdog.MAKING, part)
        self._opened.append(make_env(self._plan.factory))
        return VectorRows(self._opened[-1], self._plan.spaces)

    def _reset(self, part: Part, rows: VectorRows, seed: int) -> None:
        self.heartbeat.begin(watchdog.RESETTING, part)
        try:
            rows.reset(seed)
        except BaseException as error:  # such as that of sys.exit()
            raise failure(part, None, "its reset", error) from error


def make_shard(plan: Plan, arrays: dict[str, Array], worker: int, num_workers: int) -> Shard:
    """The environments of one worker, of either kind."""
    kind = VectorShard if plan.is_vector else Shard
    return kind(plan, arrays, worker, num_workers)
