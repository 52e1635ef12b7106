"""Brax's own PPO, timed, with the hyper-parameters of its training notebook."""

import statistics
import warnings
from typing import Any

import jax
import jax.numpy as jnp

warnings.filterwarnings("ignore", "JAXopt is no longer maintained")
warnings.filterwarnings("ignore", "Brax System, piplines")

if not hasattr(jax, "device_put_replicated"):
    # JAX 0.11 removed what Brax 0.14.2 calls once, before training; on one device it is this.
    def device_put_replicated(tree: Any, devices: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.stack([leaf] * len(devices)), tree)

    jax.device_put_replicated = device_put_replicated

from brax import envs  # noqa: E402
from brax.training.agents.ppo import train as ppo  # noqa: E402

PUBLISHED = {
    "halfcheetah": {
        "reward_scaling": 1,
        "unroll_length": 20,
        "num_updates_per_batch": 8,
        "discounting": 0.95,
        "entropy_cost": 0.001,
        "num_envs": 2048,
        "batch_size": 512,
        "seed": 3,
    },
    "ant": {
        "reward_scaling": 10,
        "unroll_length": 5,
        "num_updates_per_batch": 4,
        "discounting": 0.97,
        "entropy_cost": 1e-2,
        "num_envs": 4096,
        "batch_size": 2048,
        "seed": 1,
    },
}


def brax_steps_per_second(name: str, timesteps: int, smaller: int) -> float:
    """Median over epochs after the first two, both of which compile; no evaluation in between.

    Environments and the minibatches' trajectories are so many times fewer than published.
    """
    speeds: list[float] = []
    options = dict(PUBLISHED[name])
    for size in ("num_envs", "batch_size"):
        options[size] //= smaller

    def progress(steps: int, metrics: dict[str, Any]) -> None:
        if "training/sps" in metrics:
            speeds.append(float(metrics["training/sps"]))

    ppo.train(
        environment=envs.get_environment(name, backend="spring"),
        num_timesteps=timesteps,
        num_evals=6,
        run_evals=False,
        progress_fn=progress,
        episode_length=1000,
        normalize_observations=True,
        action_repeat=1,
        num_minibatches=32,
        learning_rate=3e-4,
        **options,
    )
    print(f"brax {name}: {[round(speed) for speed in speeds]} steps/s in its epochs", flush=True)
    return statistics.median(speeds[2:])
