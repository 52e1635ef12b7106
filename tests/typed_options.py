"""What a type checker says of an algorithm's arguments; nothing here is run.

An `ignore` that ignores nothing is an error (`test_arguments.py`), so that each line below that has
one is refused, and each other line accepted.
"""

from __future__ import annotations

from longrun import APO, ATRPO, PPO, TRPO


def accepted() -> None:
    APO("Pendulum-v1", learning_rate=1e-3, hidden_sizes=(64, 64), termination="zero")
    APO("Pendulum-v1", seed=1, preset="paper", limits={"terminated": 1e-3}, costs=["fuel"])
    PPO("Pendulum-v1", discount=0.9, activation="relu", num_envs=4, env_args={"g": 9.81})
    ATRPO("Pendulum-v1", kl_limit=0.01, gain_step_size=0.2, adaptive_lambda=False)
    TRPO("Pendulum-v1", discount=1, limit_step_size=0.3, value_hidden_sizes=[8], num_workers=0)


def refused() -> None:
    APO("Pendulum-v1", learning_rat=1e-3)  # type: ignore[call-arg]
    APO("Pendulum-v1", learning_rate="big")  # type: ignore[arg-type]
    APO("Pendulum-v1", discount=0.9)  # type: ignore[call-arg]
    PPO("Pendulum-v1", value_constraint=0.1)  # type: ignore[call-arg]
    TRPO("Pendulum-v1", clip_range=0.2)  # type: ignore[call-arg]
    ATRPO("Pendulum-v1", num_envs=1.5)  # type: ignore[arg-type]
    APO("Pendulum-v1", termination="never")  # type: ignore[arg-type]
    APO("Pendulum-v1", preset="tuna")  # type: ignore[arg-type]
    APO("MlpPolicy", "Pendulum-v1")  # type: ignore[arg-type]
