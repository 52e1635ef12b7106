"""One environment of a shard, episode after episode."""

from __future__ import annotations

from longrun.envs import seeding
from longrun.envs.heartbeat import Heartbeat
from longrun.envs.spaces import Array
from longrun.envs.stepper import Stepper


class Chain:
    """An environment that starts episode after episode, each from a seed of its own."""

    def __init__(self, stepper: Stepper, stream: tuple[int, ...], heartbeat: Heartbeat) -> None:
        self.stepper = stepper
        self.episode = 0
        self._stream = stream
        self._heartbeat = heartbeat

    def start_episode(self, obs_out: Array) -> None:
        self._heartbeat.reset()
        self.stepper.reset(seeding.episode_seed(*self._stream, self.episode), obs_out)
        self._heartbeat.reset()
        self.episode += 1
