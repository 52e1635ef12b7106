"""One environment of a shard, episode after episode."""

from __future__ import annotations

from longrun.learning.envs import seeding
from longrun.learning.envs.heartbeat import TURN, Heartbeat
from longrun.learning.envs.row_hashes import UNKNOWN, row_hashes
from longrun.learning.envs.spaces import Array
from longrun.learning.envs.stepper import Stepper


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

    def repeats(self, actions: Array, seen: Array, obs_out: Array) -> bool:
        """Repeat actions [t, A] as the environment got them; whether it did the same as then.

        `seen` [t]: hashes of the observations that followed. No action is given after one that
        differs; an action that is an error now counts as a difference.
        """
        for step, (action, expected) in enumerate(zip(actions, seen, strict=True)):
            self._heartbeat.row[TURN] = step
            try:
                _, terminated, truncated = self.stepper.step(action, obs_out)
            except KeyboardInterrupt:  # of the user
                raise
            except BaseException:  # such as that of sys.exit()
                return False
            same = expected in (UNKNOWN, row_hashes(obs_out))
            if terminated or truncated or not same:
                return False
        return True

    def restores(self, state: bytes) -> bool:
        """Set a saved state after the reset; whether the environment is in that state now."""
        try:
            self.stepper.load_state(state)
            return self.stepper.save_state() == state
        except KeyboardInterrupt:  # of the user
            raise
        except BaseException:  # whatever an environment makes of a state that does not fit it
            return False
