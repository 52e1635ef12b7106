"""The session of a run folder, started or resumed: what the command line and sweeps share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longrun.base.errors import FolderError
from longrun.base.files import as_read
from longrun.learning.envs.factories import require_saved
from longrun.learning.envs.watchdog import STEP_TIMEOUT, checked_timeout
from longrun.learning.options.config import Config
from longrun.learning.options.config_options import saved_config, written_options
from longrun.learning.runs.run_description import run_name
from longrun.learning.runs.run_folder import RunFolder
from longrun.learning.train import checkpoint
from longrun.learning.train.action_range import warn_of_wide_actions
from longrun.learning.train.checkpoint import Checkpoint
from longrun.learning.train.device.sharding import ends_all_hosts, is_first_host, wait_for_hosts
from longrun.learning.train.job import Snapshot, make_job
from longrun.learning.train.loops import Loop, open_env
from longrun.learning.train.progress import OnLog
from longrun.learning.train.session import Session, create_folder

SETTINGS = ("num_workers", "eval_every", "eval_steps", "step_timeout")
"""Settings of a job that a resumed run keeps from config.json, unless others are given."""


def start(
    path: Path,
    env: str,
    configs: Sequence[Config],
    seeds: Sequence[int],
    steps: int,
    preset: str,
    on_log: OnLog | None = None,
    name: str | None = None,
    **settings: Any,
) -> Session:
    """A new run in a new folder. Raises FolderError if the folder holds a run already.

    `preset` is what the configurations were made from, for labels.
    """
    loop = open_env(env, checked_timeout(settings.get("step_timeout", STEP_TIMEOUT)))
    job = make_job(configs, seeds, steps, **settings)
    warn_of_wide_actions(loop.spaces, configs)
    starts = _fresh_snapshots(loop, configs, seeds)
    folder = None
    with ends_all_hosts():
        if is_first_host():
            described = {"preset": preset} | ({} if name is None else {"name": run_name(name)})
            folder = create_folder(path, loop, job, steps, **described)
    return Session(loop, job, starts, folder, on_log)


@dataclass(frozen=True)
class SavedRun:
    """A run folder's content, from which the run can be resumed."""

    path: Path
    config: dict[str, Any]
    """content of config.json"""
    loop: Loop
    checkpoint: Checkpoint

    @property
    def done(self) -> list[int]:
        """Steps that each replica has done."""
        return [int(s.state.iteration) * self._per_iteration for s in self.checkpoint.snapshots]

    @property
    def begins(self) -> int:
        """Iterations that were done when the folder's last training began."""
        began = min(max(0, self.config["begins"]), *self.done)
        return int(began) // self._per_iteration

    def begins_for(self, steps: int) -> int:
        """The same if it is resumed up to `steps`.

        More steps than a finished training had are another one if something decays over it, as
        with `learn`: what has fallen to 0 starts anew.
        """
        done = min(self.done)
        decays = any(config.decays for config in self.checkpoint.configs)
        another = decays and self.config["steps"] <= done < steps
        return done // self._per_iteration if another else self.begins

    @property
    def _per_iteration(self) -> int:
        return self.checkpoint.configs[0].steps_per_iteration


def load(path: Path, trust: bool = False) -> SavedRun:
    """The run with its checkpoint, or at its start if it was interrupted before the first one.

    `trust` allows to import the module that the run names for its environment.
    """
    config = RunFolder(path).read_config()
    require_saved(config["env"], path, trust)
    loop = open_env(config["env"], checked_timeout(config.get("step_timeout", STEP_TIMEOUT)))
    if (path / "checkpoint" / "checkpoint.json").exists():
        state = checkpoint.load(path)
        _require_described(path / "config.json", config, state)
        return SavedRun(path, config, loop, state)
    configs = [
        saved_config(
            config["algorithm"],
            config["options"] | {name: v for name, v in replica.items() if name != "seed"},
        )
        for replica in config["replicas"]
    ]
    seeds = [replica["seed"] for replica in config["replicas"]]
    starts = _fresh_snapshots(loop, configs, seeds)
    state = Checkpoint(config["env"], loop.spaces, configs, seeds, starts, preset=config["preset"])
    return SavedRun(path, config, loop, state)


def _require_described(file: Path, config: Mapping[str, Any], state: Checkpoint) -> None:
    """Raise FolderError if config.json was edited, so that tables would name what was not done."""
    described = config["options"] | {"algorithm": config["algorithm"]}
    described["seeds"] = [replica["seed"] for replica in config["replicas"]]
    written = {"algorithm": state.algorithm, "seeds": state.seeds}
    for name, own in as_read(written_options(state.configs[0]) | written).items():
        if described.get(name, own) != own:
            raise FolderError(
                f"'{file}' has {name}={described[name]!r}, and the checkpoint {own!r}; what defines"
                f" a run cannot be changed: write {own!r} there again"
            )


def resume(saved: SavedRun, steps: int, on_log: OnLog | None = None, **settings: Any) -> Session:
    """The run from its checkpoint up to `steps`; rows later than the checkpoint are dropped."""
    before = {name: saved.config[name] for name in SETTINGS if name in saved.config}
    state = saved.checkpoint
    job = make_job(state.configs, state.seeds, steps, **before | settings)
    job = dataclasses.replace(job, begins=saved.begins_for(steps))
    wait_for_hosts("all have read the checkpoint")
    folder = None
    with ends_all_hosts():
        if is_first_host():
            folder = RunFolder.reopen(saved.path, steps, saved.done, state.digest, job.begins_steps)
    return Session(saved.loop, job, state.snapshots, folder, on_log)


def _fresh_snapshots(loop: Loop, configs: Sequence[Config], seeds: Sequence[int]) -> list[Snapshot]:
    return [loop.fresh_snapshot(c, s) for c, s in zip(configs, seeds, strict=True)]
