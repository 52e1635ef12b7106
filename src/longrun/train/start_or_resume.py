"""A run folder's session, begun or gone on with: what the command line and sweeps share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longrun.config import Config, saved_config
from longrun.envs.factories import require_id
from longrun.train import checkpoint
from longrun.train.checkpoint import Checkpoint
from longrun.train.device.sharding import ends_all_hosts, is_first_host, wait_for_hosts
from longrun.train.job import Opened, Snapshot, fresh_snapshot, make_job, open_env
from longrun.train.progress import OnLog
from longrun.train.run_folder import RunFolder
from longrun.train.session import Session, create_folder

SETTINGS = ("num_workers", "eval_every", "eval_steps")
"""Of a job, besides what it trains; a resumed run has those it began with, unless others are
given."""


def begin(
    path: Path,
    env: str,
    configs: Sequence[Config],
    seeds: Sequence[int],
    steps: int,
    preset: str = "paper",
    on_log: OnLog | None = None,
    **settings: Any,
) -> Session:
    """A new run in a new folder; a folder that holds one already is left alone."""
    opened = open_env(env)
    job = make_job(opened.env, configs, seeds, steps, **settings)
    starts = _fresh(opened, configs, seeds)
    folder = None
    with ends_all_hosts():
        if is_first_host():
            folder = create_folder(path, job, steps, preset=preset)
    return Session(job, opened.spaces, starts, folder, on_log)


@dataclass(frozen=True)
class Saved:
    """A run as it was left."""

    path: Path
    config: dict[str, Any]
    """its config.json"""
    opened: Opened
    checkpoint: Checkpoint

    @property
    def done(self) -> list[int]:
        """Steps that each replica has behind it."""
        per_iteration = self.checkpoint.configs[0].steps_per_iteration
        return [int(s.state.iteration) * per_iteration for s in self.checkpoint.snapshots]


def load(path: Path) -> Saved:
    """The run's checkpoint, or its very beginning where it was interrupted before the first."""
    config = RunFolder(path).read_config()
    require_id(config["env"], path)
    opened = open_env(config["env"])
    if (path / "checkpoint" / "checkpoint.json").exists():
        return Saved(path, config, opened, checkpoint.load(path))
    configs = [
        saved_config(
            config["algorithm"],
            config["options"] | {name: v for name, v in replica.items() if name != "seed"},
        )
        for replica in config["replicas"]
    ]
    seeds = [replica["seed"] for replica in config["replicas"]]
    starts = _fresh(opened, configs, seeds)
    return Saved(
        path, config, opened, Checkpoint(config["env"], opened.spaces, configs, seeds, starts)
    )


def go_on(saved: Saved, steps: int, on_log: OnLog | None = None, **settings: Any) -> Session:
    """From the checkpoint up to `steps`; rows of what is done again are forgotten."""
    before = {name: saved.config[name] for name in SETTINGS}
    state = saved.checkpoint
    job = make_job(saved.opened.env, state.configs, state.seeds, steps, **before | settings)
    wait_for_hosts("all have read the checkpoint")
    folder = RunFolder(saved.path) if is_first_host() else None
    with ends_all_hosts():
        if folder is not None:
            with folder.locked():
                folder.forget_after(saved.done)
                folder.extend_to(steps)
    return Session(job, saved.opened.spaces, state.snapshots, folder, on_log)


def _fresh(opened: Opened, configs: Sequence[Config], seeds: Sequence[int]) -> list[Snapshot]:
    return [
        fresh_snapshot(opened.env, config, opened.spaces, seed)
        for config, seed in zip(configs, seeds, strict=True)
    ]
