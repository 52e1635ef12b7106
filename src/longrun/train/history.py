"""What brings an environment back: its current episode's number and the actions taken in it.

Gymnasium has no way to save an environment. But an episode that starts from a seed is repeated by
repeating its actions, so these are kept, and a resumed run goes on as if nothing had happened.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from longrun.envs.spaces import Array, Spaces
from longrun.envs.workers import Pool

LONGEST_REPLAY = 20_000
"""Steps; beyond it an environment starts a fresh episode when the run is resumed."""


class Episodes(NamedTuple):
    """Where the N environments of a replica are."""

    number: Array
    """[N], which episode each is in"""
    length: Array
    """[N], steps taken in it, or -1 where they are too many to be repeated"""
    action: Array
    """[sum of lengths, A], one environment after the other"""


def no_episodes(num_envs: int, spaces: Spaces) -> Episodes:
    """Before the first step: every environment at the start of episode 0."""
    zeros = np.zeros(num_envs, np.int64)
    return Episodes(zeros, zeros, np.zeros((0, spaces.action_size), spaces.action_dtype))


class EpisodeHistory:
    """Follows a replica's rollouts."""

    def __init__(self, episodes: Episodes) -> None:
        self._number = episodes.number.copy()
        ends = np.cumsum(np.maximum(episodes.length, 0))
        self._chunks = [
            [episodes.action[end - max(length, 0) : end]]
            for length, end in zip(episodes.length, ends, strict=True)
        ]
        too_long = episodes.length < 0
        self._number[too_long] += 1
        if too_long.any():
            warnings.warn(
                f"{too_long.sum()} environments were more than {LONGEST_REPLAY} steps into their"
                " episodes, which is too far to repeat; they start new ones",
                UserWarning,
                stacklevel=2,
            )

    def extend(self, action: Array, ended: Array) -> None:
        """Add a rollout: [T, N, A] actions, [T, N] whether an episode ended there."""
        action = action.copy()  # the array is shared and will be written to
        for i, chunks in enumerate(self._chunks):
            ends = np.flatnonzero(ended[:, i])
            first = 0
            if len(ends):
                self._number[i] += len(ends)
                chunks.clear()
                first = ends[-1] + 1
            if not chunks or sum(map(len, chunks)) <= LONGEST_REPLAY:
                chunks.append(action[first:, i])

    def snapshot(self) -> Episodes:
        lengths = np.array([sum(map(len, chunks)) for chunks in self._chunks])
        lengths[lengths > LONGEST_REPLAY] = -1
        kept = [c for i, cs in enumerate(self._chunks) if lengths[i] >= 0 for c in cs]
        nothing = self._chunks[0][0][:0]
        return Episodes(self._number.copy(), lengths, np.concatenate([nothing, *kept]))

    def restore(self, pool: Pool, replica: int) -> None:
        """Bring the replica's environments to where they were, through the shared action array."""
        pool.start("restart", replica, self._number.tolist())()
        rows = pool.arrays["action"][replica]  # [T, N, A]
        actions = [np.concatenate(chunks) for chunks in self._chunks]
        for begin in range(0, max(map(len, actions)), len(rows)):
            pieces = [a[begin : begin + len(rows)] for a in actions]
            for i, piece in enumerate(pieces):
                rows[: len(piece), i] = piece
            pool.start("replay", replica, [len(piece) for piece in pieces])()
