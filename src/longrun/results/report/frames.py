"""Pictures of policies: which ones, and how they are had without trusting OpenGL."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from longrun.envs.native.lookup import is_native
from longrun.files import read_json
from longrun.results.report.runs import Group, Replica

MOST_EACH = 600_000
"""characters of the pictures of one environment"""
PATIENCE = 180
"""seconds for one environment"""


class Policy(NamedTuple):
    """The first seed of the setting that earns most in its environment."""

    env: str
    label: str
    replica: Replica


def best_policies(groups: Sequence[Group]) -> list[Policy]:
    """One for each environment with pictures; those inside the compiled program have none."""
    best: dict[str, tuple[float, Group]] = {}
    for group in groups:
        found = group.evaluation
        if found is None or not len(found.steps) or is_native(group.env):
            continue
        mean = float(found.values["average_reward"][-1].mean())
        if group.env not in best or mean > best[group.env][0]:
            best[group.env] = mean, group
    return [Policy(env, group.label, _first_seed(group)) for env, (_, group) in best.items()]


def _first_seed(group: Group) -> Replica:
    """Of the seeds that were evaluated."""
    assert group.evaluation is not None
    first = group.evaluation.seeds[0]
    return next(replica for replica in group.replicas if replica.seed == first)


def film(policy: Policy, characters: int = MOST_EACH) -> dict[str, Any]:
    """The pictures, or a `note` that says in one line why there are none."""
    failed: list[dict[str, Any]] = []
    for backend in backends():
        found = _render(policy.replica, min(characters, MOST_EACH), backend)
        if not found.pop("again", False):
            return found
        failed.append(found)
    return failed[0]  # what the first choice says is the most to the point


def backends() -> list[str | None]:
    """What MuJoCo may draw with: the user's choice, or on Linux a graphics card or none."""
    if os.environ.get("MUJOCO_GL") or not sys.platform.startswith("linux"):
        return [None]
    return ["egl", "osmesa"]


def _render(replica: Replica, characters: int, backend: str | None) -> dict[str, Any]:
    chosen = {} if backend is None else {"MUJOCO_GL": backend}
    module = "longrun.results.report.rendering"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "frames.json"
        where = [str(replica.run.path), str(replica.number), str(characters), str(out)]
        try:
            done = subprocess.run(
                # -P: what lies in the working directory must hide nothing
                [sys.executable, "-P", "-W", "ignore", "-m", module, *where],
                env=os.environ | chosen | {"JAX_PLATFORMS": "cpu"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired:
            return {"note": f"the renderer took more than {PATIENCE} s"}
        if done.returncode == 0 and out.exists():
            content: dict[str, Any] = read_json(out)
            return content
        said = done.stderr.decode(errors="replace").strip().splitlines()
        last = said[-1] if said else "it said nothing"
        note = f"the renderer ended with status {done.returncode}: {last[:300]}"
        return {"note": note, "again": True}
