"""What a pool of environments runs, and the arrays that its workers and the learner share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longrun.learning.envs import seeding, watchdog
from longrun.learning.envs.factories import Factory
from longrun.learning.envs.numpy_policy import count_weights
from longrun.learning.envs.shared_memory import Spec
from longrun.learning.envs.spaces import Spaces
from longrun.learning.options.acting import Acting


@dataclass(frozen=True)
class Plan:
    """What a pool runs, for all replicas: R = len(seeds)."""

    factory: Factory
    spaces: Spaces
    acting: Acting
    seeds: tuple[int, ...]
    num_envs: int
    """N"""
    rollout_steps: int
    """T"""
    eval_envs: int = 0
    """E"""
    eval_steps: int = 0
    """S, for each of the E environments"""
    eval_noise: bool = False
    """whether evaluations draw actions, instead of taking the most likely ones"""
    eval_purposes: tuple[int, int] = seeding.IN_TRAINING
    """purposes of the random streams of an evaluation: resets, noise"""
    is_vector: bool = False
    """whether the factory makes a VectorEnv, with all environments of a replica"""
    state_bytes: int = 0
    """most bytes of an environment's saved state; 0 if it cannot save it"""
    costs: tuple[str, ...] = ()
    """K names"""

    def memory(self, num_workers: int = 1) -> Spec:
        """Shapes of the arrays that shards and the learner share, and of the workers' rows."""
        r, t, n = len(self.seeds), self.rollout_steps, self.num_envs
        d, a = self.spaces.observation_size, self.spaces.action_size
        k = len(self.costs)
        return {
            "weights": ((r, count_weights(self.acting, self.spaces)), np.float32),
            "obs": ((r, t + 1, n, d), np.float32),  # the next rollout starts from the last row
            "action": ((r, t, n, a), self.spaces.action_dtype),
            "reward": ((r, t, n), np.float32),
            "next_obs": ((r, t, n, d), np.float32),
            "terminated": ((r, t, n), np.bool_),
            "truncated": ((r, t, n), np.bool_),
            "env_state": ((r, n, self.state_bytes), np.uint8),
            "env_state_size": ((r, n), np.int64),
            "strayed": ((r, n), np.bool_),  # environments that could not be restored
            "eval_reward": ((r, self.eval_steps, self.eval_envs), np.float64),
            "eval_ended": ((r, self.eval_steps, self.eval_envs), np.bool_),
            "costs": ((r, t, n, k), np.float32),
            "eval_costs": ((r, self.eval_steps, self.eval_envs, k), np.float64),
            "heartbeat": ((num_workers, watchdog.CELLS), np.int64),
        }
