"""Where a replica's environments are in their episodes, and how new ones are brought there.

An environment that can save its state continues in it, to the bit. Any other begins its next
episode, unless it was at the start of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from longrun.base.errors import FolderError, warn
from longrun.learning.envs.spaces import Array, Spaces
from longrun.learning.envs.worker_pool import Pool
from longrun.learning.learn.types import Rollout


class Episodes(NamedTuple):
    """The positions of a replica's N environments in their episodes."""

    number: Array
    """[N], number of the current episode"""
    begun: Array
    """[N] bool, whether it has had a step"""
    obs: Array
    """[N, D], the present observations"""
    state_size: Array
    """[N], bytes of each environment's saved state, 0 without one"""
    state: Array
    """[sum of sizes] uint8, states of one environment after the other"""


def no_episodes(num_envs: int, spaces: Spaces) -> Episodes:
    """The episodes before the first step: every environment is at the start of episode 0."""
    return Episodes(
        number=np.zeros(num_envs, np.int64),
        begun=np.zeros(num_envs, bool),
        obs=np.zeros((num_envs, spaces.observation_size), np.float32),
        state_size=np.zeros(num_envs, np.int64),
        state=np.zeros(0, np.uint8),
    )


def read_episodes(found: Mapping[str, Array], num_envs: int, spaces: Spaces) -> Episodes:
    """Episodes from a snapshot. Raises FolderError if the arrays do not fit together."""
    like = no_episodes(num_envs, spaces)
    try:
        episodes = Episodes(**found)
        expected = like._replace(state=np.zeros(episodes.state_size.sum(), np.uint8))
        sizes_fit = bool((episodes.number >= 0).all() and (episodes.state_size >= 0).all())
    except (TypeError, ValueError) as error:
        raise FolderError(f"the saved environments are damaged: {error!r}") from None
    for name, array, wanted in zip(Episodes._fields, episodes, expected, strict=True):
        fits = array.shape == wanted.shape and array.dtype == wanted.dtype
        if not fits or not sizes_fit or not np.isfinite(array).all():
            raise FolderError(f"the saved environments are damaged: '{name}' is {array.shape}")
    return episodes


def after(episodes: Episodes, rollout: Rollout, states: Array, sizes: Array) -> Episodes:
    """The positions after a rollout [T, N]; states [N, bytes] of which sizes [N] are filled.

    The arrays are shared with workers that will overwrite them.
    """
    ended = rollout.terminated | rollout.truncated
    return Episodes(
        number=episodes.number + ended.sum(0),
        begun=~ended[-1],
        obs=np.array(rollout.resume_obs),
        state_size=np.array(sizes),
        state=np.concatenate([row[:size] for row, size in zip(states, sizes, strict=True)]),
    )


def restored(episodes: Episodes, pool: Pool, replica: int) -> Episodes:
    """Bring new environments to these positions; those that they are at."""
    names = ("obs", "env_state_size", "env_state", "strayed")
    obs, sizes, states, strayed = (pool.arrays[name][replica] for name in names)
    saved = (episodes.state_size > 0) & (episodes.state_size <= states.shape[1])
    lost = episodes.begun & ~saved
    number = episodes.number + lost
    sizes[:] = np.where(saved, episodes.state_size, 0)
    strayed[:] = False
    ends = np.cumsum(episodes.state_size)
    for i in np.flatnonzero(saved):
        states[i, : sizes[i]] = episodes.state[ends[i] - sizes[i] : ends[i]]
    pool.start("restart", replica, number.tolist())()
    kept = saved & ~strayed
    obs[-1][kept] = episodes.obs[kept]
    if strayed.any():
        _say(strayed, "did not restore their states")
    if lost.any():
        _say(lost, "cannot save their states")
    return episodes._replace(number=number + strayed, begun=episodes.begun & kept)


def _say(which: Array, what: str) -> None:
    warn(
        f"{which.sum()} of {which.size} environments {what}; they start new episodes. One with"
        " get_state and set_state is resumed where it was"
    )
