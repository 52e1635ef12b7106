"""What is recorded of the current episode of one environment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longrun.learning.envs.row_hashes import UNKNOWN
from longrun.learning.envs.spaces import Array

MOST_CHUNKS = 32
"""Most arrays that an episode's actions are kept in before they are joined."""


@dataclass
class EpisodeRecord:
    """An episode's number, and its saved state or its actions from the start."""

    number: int
    length: int
    """steps that are recorded, or -1 if they are too many"""
    actions: list[Array]
    """[length, A], in chunks"""
    seen: list[Array]
    """[length], hashes of the observations after these actions, in the same chunks"""
    first: int
    """hash of the first observation"""
    state: bytes
    """b"" without one"""

    def start_next(self) -> None:
        """A new episode is started in place of the recorded one."""
        self._restart(self.number + 1)
        self.state = b""

    def extend(
        self, action: Array, seen: Array, before: Array, ends: Array, longest: int, state: bytes
    ) -> None:
        """Add T steps: actions [T, A], hashes of observations after [T] and before [T + 1] them.

        `ends`: the steps at which episodes ended. With a saved state no actions are needed.
        """
        begin = int(ends[-1]) + 1 if len(ends) else 0
        if len(ends):
            self._restart(self.number + len(ends))
        is_recorded = not self.state or len(ends) > 0  # from its start: there was no state before
        if is_recorded and self.length == 0:
            self.first = int(before[begin])
        self.state = state
        if state:
            self.length = 0
        elif self.length < 0 or not is_recorded or self.length + len(action) - begin > longest:
            self.length = -1
        else:
            self.length += len(action) - begin
            self.actions.append(action[begin:])
            self.seen.append(seen[begin:])
        if self.length <= 0:
            self._clear()
        elif len(self.actions) > MOST_CHUNKS:
            self.actions = [np.concatenate(self.actions)]
            self.seen = [np.concatenate(self.seen)]

    def _restart(self, number: int) -> None:
        self.number, self.length, self.first = number, 0, UNKNOWN
        self._clear()

    def _clear(self) -> None:
        self.actions, self.seen = [self.actions[0][:0]], [self.seen[0][:0]]
