"""All random streams of environments, each from (seed, purpose, environment, time).

No stream has a state that outlives its use: its numbers depend neither on other replicas nor on
the number of workers nor on whether the run was resumed.
"""

from __future__ import annotations

import numpy as np

NOISE, EPISODE, EVALUATION, SHUFFLE, EVALUATION_NOISE, MEASUREMENT, MEASUREMENT_NOISE = range(7)

IN_TRAINING = EVALUATION, EVALUATION_NOISE
AFTERWARDS = MEASUREMENT, MEASUREMENT_NOISE
"""Resets and noise of an evaluation. One of a finished policy never repeats one of its training,
by which it may have been selected."""


def generator(seed: int, purpose: int, *where: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence((seed, purpose, *where)))


def episode_seed(seed: int, purpose: int, *where: int) -> int:
    """A seed for `env.reset`."""
    return int(np.random.SeedSequence((seed, purpose, *where)).generate_state(1)[0])
