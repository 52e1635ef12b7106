"""Restoring environments: the number of the current episode and the actions taken in it.

Gymnasium has no way to save an environment, but an episode that starts from a seed is repeated by
repeating its actions. So the actions are kept, and a resumed run equals an uninterrupted one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from longrun.envs.spaces import Array, Spaces
from longrun.envs.worker_pool import Pool
from longrun.errors import FolderError, listed

LONGEST_REPLAY = 20_000
MOST_ACTIONS = 400_000
"""Most steps that are kept of one environment, and of all environments of a replica together. An
episode with more than its share is not repeated."""
MOST_CHUNKS = 32
"""Most arrays that an episode's actions are kept in before they are joined."""


class Episodes(NamedTuple):
    """The positions of a replica's N environments in their episodes."""

    number: Array
    """[N], number of the current episode"""
    length: Array
    """[N], steps taken in it, or -1 if they are too many to be repeated"""
    action: Array
    """[sum of lengths, A], actions of one environment after the other"""


def no_episodes(num_envs: int, spaces: Spaces) -> Episodes:
    """Before the first step: every environment at the start of episode 0."""
    zeros = np.zeros(num_envs, np.int64)
    return Episodes(zeros, zeros, np.zeros((0, spaces.action_size), spaces.action_dtype))


def saved_episodes(arrays: Mapping[str, Array], num_envs: int, spaces: Spaces) -> Episodes:
    """The episodes of a snapshot. Raises FolderError if they have no sense."""
    if set(arrays) != set(Episodes._fields):
        raise FolderError(f"the checkpoint's environments are damaged: they are {listed(arrays)}")
    episodes = Episodes(**arrays)
    steps = np.maximum(episodes.length, 0).sum() if episodes.length.dtype == np.int64 else -1
    expected = no_episodes(num_envs, spaces)._replace(
        action=np.zeros((max(steps, 0), spaces.action_size), spaces.action_dtype)
    )
    for name, found, like in zip(Episodes._fields, episodes, expected, strict=True):
        if found.shape != like.shape or found.dtype != like.dtype or not np.isfinite(found).all():
            raise FolderError(f"the checkpoint's environments are damaged: '{name}' has no sense")
    if (episodes.number < 0).any() or (episodes.length < -1).any():
        raise FolderError("the checkpoint's environments are damaged: an episode is negative")
    return episodes


class EpisodeHistory:
    """Records the current episodes of a replica, rollout by rollout."""

    def __init__(self, episodes: Episodes) -> None:
        self._number = episodes.number.copy()
        ends = np.cumsum(np.maximum(episodes.length, 0))
        self._chunks = [
            [episodes.action[end - max(length, 0) : end]]
            for length, end in zip(episodes.length, ends, strict=True)
        ]
        self._length = np.maximum(episodes.length, 0)
        self._longest = min(LONGEST_REPLAY, MOST_ACTIONS // len(self._number))
        too_long = episodes.length < 0
        self._number[too_long] += 1
        if too_long.any():
            warnings.warn(
                f"{too_long.sum()} environments were more than {self._longest} steps into their"
                " episodes, which is too far to repeat; they start new ones",
                UserWarning,
                stacklevel=2,
            )

    def extend(self, action: Array, ended: Array) -> None:
        """Add a rollout: [T, N, A] actions, [T, N] whether an episode ended there."""
        action = action.copy()  # the array is shared, and workers will overwrite it
        for i, chunks in enumerate(self._chunks):
            ends = np.flatnonzero(ended[:, i])
            first = 0
            if len(ends):
                self._number[i] += len(ends)
                chunks.clear()
                first = ends[-1] + 1
            chunks.append(action[first:, i])
            self._length[i] = sum(map(len, chunks)) if len(ends) or self._length[i] >= 0 else -1
            if self._length[i] > self._longest:
                self._length[i] = -1
            if self._length[i] < 0:
                chunks[:] = [action[:0, i]]
            elif len(chunks) > MOST_CHUNKS:
                chunks[:] = [np.concatenate(chunks)]

    def snapshot(self) -> Episodes:
        """The positions after the last rollout."""
        action = np.concatenate([chunk for chunks in self._chunks for chunk in chunks])
        return Episodes(self._number.copy(), self._length.copy(), action)

    def restore(self, pool: Pool, replica: int) -> None:
        """Repeat the recorded actions in the environments, via the shared action array."""
        pool.start("restart", replica, self._number.tolist())()
        rows = pool.arrays["action"][replica]  # [T, N, A]
        actions = [np.concatenate(chunks) for chunks in self._chunks]
        for begin in range(0, max(map(len, actions)), len(rows)):
            pieces = [a[begin : begin + len(rows)] for a in actions]
            for i, piece in enumerate(pieces):
                rows[: len(piece), i] = piece
            pool.start("replay", replica, [len(piece) for piece in pieces])()
