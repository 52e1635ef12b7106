"""Restoring environments: their saved states, or the actions of their current episodes.

Few environments can save their state, but an episode that starts from a seed is repeated by
repeating its actions. So the actions are kept, and a resumed run equals an uninterrupted one. Where
an episode is not repeated, as the observations show, a new one is started.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from longrun.base.errors import FolderError, users_level
from longrun.learning.envs.row_hashes import UNKNOWN, row_hashes
from longrun.learning.envs.spaces import Array, Spaces
from longrun.learning.envs.worker_pool import Pool
from longrun.learning.learn.types import Rollout
from longrun.learning.train.host.episode_record import EpisodeRecord

LONGEST_REPLAY = 20_000
MOST_ACTIONS = 400_000
"""Most steps that are kept of one environment, and of all environments of a replica together. An
episode with more than its share is not repeated."""
REPLAY_SECONDS = 300.0
"""Longest time for which episodes are repeated; those that are not done by then start anew."""


class Episodes(NamedTuple):
    """The positions of a replica's N environments in their episodes."""

    number: Array
    """[N], number of the current episode"""
    length: Array
    """[N], steps to be repeated in it, or -1 if they are too many"""
    action: Array
    """[sum of lengths, A], actions of one environment after the other"""
    first: Array
    """[N] uint32, hash of the episode's first observation, or `UNKNOWN`"""
    seen: Array
    """[sum of lengths] uint32, hashes of the observations after these actions"""
    obs: Array
    """[N, D], the present observations"""
    state_size: Array
    """[N], bytes of each environment's saved state, 0 without one"""
    state: Array
    """[sum of sizes] uint8, states of one environment after the other"""


def no_episodes(num_envs: int, spaces: Spaces) -> Episodes:
    """The episodes before the first step: every environment is at the start of episode 0."""
    zeros = np.zeros(num_envs, np.int64)
    return Episodes(
        number=zeros,
        length=zeros,
        action=np.zeros((0, spaces.action_size), spaces.action_dtype),
        first=np.full(num_envs, UNKNOWN, np.uint32),
        seen=np.zeros(0, np.uint32),
        obs=np.zeros((num_envs, spaces.observation_size), np.float32),
        state_size=zeros,
        state=np.zeros(0, np.uint8),
    )


def read_episodes(found: Mapping[str, Array], num_envs: int, spaces: Spaces) -> Episodes:
    """Episodes from a snapshot. Raises FolderError if the arrays do not fit together."""
    try:
        episodes = Episodes(**found)
        steps = np.maximum(episodes.length, 0).sum()
        expected = (
            (num_envs,),
            (num_envs,),
            (steps, spaces.action_size),
            (num_envs,),
            (steps,),
            (num_envs, spaces.observation_size),
            (num_envs,),
            (episodes.state_size.sum(),),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FolderError(f"the saved environments are damaged: {error!r}") from None
    like = no_episodes(num_envs, spaces)
    for name, array, shape, kind in zip(Episodes._fields, episodes, expected, like, strict=True):
        fits = array.shape == shape and array.dtype == kind.dtype
        if not fits or not np.isfinite(array).all():
            raise FolderError(f"the saved environments are damaged: '{name}' is {array.shape}")
    sizes = (episodes.number, episodes.state_size, episodes.length + 1)
    if any((size < 0).any() for size in sizes):
        raise FolderError("the saved environments are damaged: a size is negative")
    return episodes


class EpisodeHistory:
    """Records the current episodes of a replica, rollout by rollout.

    `live`: the environments are where they were when `episodes` was made.
    """

    def __init__(self, episodes: Episodes, live: bool = False) -> None:
        ends = np.cumsum(np.maximum(episodes.length, 0)).tolist()
        state_ends = np.cumsum(episodes.state_size).tolist()
        self._records = [
            EpisodeRecord(
                number,
                length,
                [episodes.action[end - max(length, 0) : end]],
                [episodes.seen[end - max(length, 0) : end]],
                first,
                episodes.state[state_end - size : state_end].tobytes(),
            )
            for number, length, end, first, size, state_end in zip(
                episodes.number.tolist(),
                episodes.length.tolist(),
                ends,
                episodes.first.tolist(),
                episodes.state_size.tolist(),
                state_ends,
                strict=True,
            )
        ]
        self._obs = episodes.obs
        self._longest = min(LONGEST_REPLAY, MOST_ACTIONS // len(self._records))
        if not live:
            self._leave_long_ones()

    def _leave_long_ones(self) -> None:
        too_long = [record for record in self._records if record.length < 0]
        for record in too_long:
            record.start_next()
        if too_long:
            warnings.warn(
                f"{len(too_long)} environments were more than {self._longest} steps into their"
                " episodes, which is too far to repeat; they start new ones. An environment with"
                " get_state and set_state is resumed where it was",
                UserWarning,
                stacklevel=users_level(),
            )

    def extend(self, rollout: Rollout, states: Array, sizes: Array) -> None:
        """Add a rollout [T, N]; states [N, bytes] of which sizes [N] are filled, 0 for none.

        The arrays are shared with workers that will overwrite them.
        """
        action = np.array(rollout.action)
        ended = rollout.terminated | rollout.truncated
        seen = row_hashes(rollout.next_obs)  # [T, N]
        self._obs = np.array(rollout.resume_obs)
        before = row_hashes(np.concatenate([rollout.obs, self._obs[None]]))  # [T + 1, N]
        for i, record in enumerate(self._records):
            state = states[i, : sizes[i]].tobytes()
            columns = action[:, i], seen[:, i], before[:, i]
            record.extend(*columns, np.flatnonzero(ended[:, i]), self._longest, state)

    def snapshot(self) -> Episodes:
        """The positions after the last rollout."""
        records = self._records
        return Episodes(
            number=np.array([record.number for record in records]),
            length=np.array([record.length for record in records]),
            action=np.concatenate([chunk for record in records for chunk in record.actions]),
            first=np.array([record.first for record in records], np.uint32),
            seen=np.concatenate([chunk for record in records for chunk in record.seen]),
            obs=self._obs,
            state_size=np.array([len(record.state) for record in records]),
            state=np.frombuffer(b"".join(record.state for record in records), np.uint8),
        )

    def restore(self, pool: Pool, replica: int) -> None:
        """Bring new environments to the recorded positions; where that fails, start episodes."""
        pool.start("restart", replica, [record.number for record in self._records])()
        strayed = pool.arrays["strayed"][replica]
        strayed[:] = False
        self._load_states(pool, replica)
        self._require_same_starts(pool, replica)
        self._replay(pool, replica)
        if strayed.any():
            pool.start("renew", replica)()
            for record, odd in zip(self._records, strayed.tolist(), strict=True):
                if odd:
                    record.start_next()

    def _load_states(self, pool: Pool, replica: int) -> None:
        records = self._records
        sizes, states = (pool.arrays[n][replica] for n in ("env_state_size", "env_state"))
        strayed, obs = pool.arrays["strayed"][replica], pool.arrays["obs"][replica][-1]
        sizes[:] = [len(record.state) for record in records]
        if not sizes.any():
            return
        fits = sizes <= states.shape[1]  # not with an environment that has lost its get_state
        sizes[~fits] = 0
        for i in np.flatnonzero(sizes):
            states[i, : sizes[i]] = np.frombuffer(records[i].state, np.uint8)
        pool.start("load_states", replica)()
        strayed |= ~fits
        restored = (sizes > 0) & ~strayed
        obs[restored] = self._obs[restored]
        if strayed.any():
            _warn(strayed, "did not restore their states")

    def _require_same_starts(self, pool: Pool, replica: int) -> None:
        """Mark environments whose reset, which has the episode's seed, gives something else."""
        strayed = pool.arrays["strayed"][replica]
        first = np.array([record.first for record in self._records], np.uint32)
        replayed = np.array([not record.state for record in self._records])
        found = row_hashes(pool.arrays["obs"][replica][-1])
        strayed |= replayed & (first != UNKNOWN) & (found != first)

    def _replay(self, pool: Pool, replica: int) -> None:
        """Repeat the recorded actions, via the shared arrays."""
        rows, hashes, strayed = (pool.arrays[n][replica] for n in ("action", "seen", "strayed"))
        actions = [np.concatenate(record.actions) for record in self._records]
        seen = [np.concatenate(record.seen) for record in self._records]
        deadline = time.monotonic() + REPLAY_SECONDS
        late = ""
        for begin in range(0, max(map(len, actions)), len(rows)):
            counts = [len(a[begin : begin + len(rows)]) for a in actions]
            if begin and time.monotonic() >= deadline:
                strayed |= np.array(counts) > 0
                late = f" within {REPLAY_SECONDS:g} s"
                break
            for i, count in enumerate(counts):
                rows[:count, i] = actions[i][begin : begin + count]
                hashes[:count, i] = seen[i][begin : begin + count]
            pool.start("replay", replica, counts)()
        fresh = np.array([not record.state for record in self._records]) & strayed
        if fresh.any():
            _warn(fresh, f"did not repeat their episodes{late}")


def _warn(strayed: Array, what: str) -> None:
    warnings.warn(
        f"{strayed.sum()} of {strayed.size} environments {what}; they start new ones. An"
        " environment repeats an episode if reset(seed=...) determines it, and need not if it has"
        " get_state and set_state",
        UserWarning,
        stacklevel=5,
    )
