"""All randomness of the environments' side, each stream from (seed, purpose, environment, when).

No stream has a state that outlives its use: whatever else runs beside a replica, whatever the
number of workers, and after a resume, the same numbers come.
"""

from __future__ import annotations

import numpy as np

NOISE, EPISODE, EVALUATION, SHUFFLE = range(4)


def generator(seed: int, purpose: int, *where: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence((seed, purpose, *where)))


def episode_seed(seed: int, purpose: int, *where: int) -> int:
    """A seed for `env.reset`."""
    return int(np.random.SeedSequence((seed, purpose, *where)).generate_state(1)[0])
