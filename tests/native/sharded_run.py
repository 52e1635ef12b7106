"""Trains two runs and writes what was learnt: `python sharded_run.py OUT.npz`.

One of four replicas of two environments, which are sharded by replica, and one of a single replica
with eight, whose environments are.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import numpy as np

from longrun.config import make_config
from longrun.train.job import fresh_snapshot, make_job, open_env
from longrun.train.session import Session


def learnt(replicas: int, num_envs: int) -> list[np.ndarray]:
    options: dict[str, Any] = {"rollout_steps": 16, "minibatch_size": 16, "epochs": 2}
    config = make_config("apo", num_envs=num_envs, hidden_sizes=(8,), **options)
    opened, seeds = open_env("jax:criss-cross"), list(range(replicas))
    steps = 4 * config.steps_per_iteration
    every = 2 * config.steps_per_iteration
    job = make_job(opened.env, [config] * replicas, seeds, steps, eval_every=every, eval_steps=50)
    starts = [fresh_snapshot(opened.env, config, opened.spaces, seed) for seed in seeds]
    found = Session(job, opened.spaces, starts).run(False).snapshots
    return [np.asarray(leaf) for leaf in jax.tree.leaves(found)]


def main(out: str) -> None:
    found = {"devices": [np.asarray(jax.device_count())]}
    found |= {f"{r} x {n}": learnt(r, n) for r, n in ((4, 2), (1, 8))}
    named = {f"{run}/{i}": leaf for run, leaves in found.items() for i, leaf in enumerate(leaves)}
    np.savez(out, **named)


if __name__ == "__main__":
    main(sys.argv[1])
