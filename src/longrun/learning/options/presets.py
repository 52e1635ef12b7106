"""Presets: named sets of options, and a description of each."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {  # the fields' defaults except for this, which suits simulators that clamp
        "action_bounds": "raw",
    },
    "tuned": {  # chosen on MuJoCo tasks with seeds 100 and above (results/tuned.md)
        "gae_lambda": 0.9,
        "adaptive_lambda": True,
        "num_envs": 2,
        "rollout_steps": 1000,
        "minibatch_size": 50,
        "epochs": 5,
        "normalize_observations": True,
        "normalize_advantages": True,
        "scale_rewards": True,
        "learning_rate_decay": True,
        "entropy_coefficient": 0.0,
        "initial_log_std": -1.0,
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
"""The options that a preset changes; those that an algorithm does not have are left out, and
`adaptive_lambda` for the discounted criterion (`make_config`)."""

DEFAULT = "tuned"
"""The preset of everything but the paper's experiments. Folder names and labels leave it out."""
PRESETS_IN_WORDS = {
    "paper": "the paper's settings",
    "tuned": "normalisation, learning-rate decay, and for the average reward a lambda and a reset"
    " cost that adapt; for control tasks",
    "queueing": "1024 environments and scaled rewards, for jax: queueing networks",
}
