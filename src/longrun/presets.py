"""Presets: options that go together, by name; what they change, and in words."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {  # the fields' defaults but for this, which is safe with simulators that clamp
        "action_bounds": "raw",
    },
    "authors": {  # what the released code does and the paper does not tell (docs/design.md)
        "action_bounds": "raw",
        "bounded_mean": True,
        "time_limit": "as_termination",
        "initialisation": "torch",
        "joint_optimizer": True,
    },
    "tuned": {  # chosen on MuJoCo tasks with seeds from 100 on (results/RESULTS.md)
        "normalize_observations": True,
        "normalize_advantages": True,
        "scale_rewards": True,
        "learning_rate_decay": True,
        "entropy_coefficient": 0.0,
        "initial_log_std": -0.5,
        "termination": "reset",
        "reset_cost_step_size": 1.0,
    },
    "queueing": {  # chosen on criss-cross and six-class networks (benchmarks/queueing.py)
        "num_envs": 1024,
        "rollout_steps": 256,
        "minibatch_size": 16384,
        "epochs": 4,
        "learning_rate": 5e-4,
        "gae_lambda": 0.95,
        "entropy_coefficient": 0.0,
        "normalize_advantages": True,
        "scale_rewards": True,
        "learning_rate_decay": True,
    },
}
"""What a preset changes; a field that an algorithm does not have is left out for it."""

PRESETS_IN_WORDS = {
    "paper": "the paper's plain setting",
    "authors": "the paper's with all that its authors' code does otherwise",
    "tuned": "normalised, decaying, and falls cost what it takes to make them rare, for control",
    "queueing": "1024 environments and scaled rewards, for jax: queueing networks",
}
