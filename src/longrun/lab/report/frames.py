"""Pictures of policies: of which ones, drawn in a process of its own since OpenGL may crash."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from longrun.base.files import read_json
from longrun.lab.report.runs import ReportedSetting
from longrun.lab.results.limits import feasible_shares
from longrun.lab.results.read import Setting
from longrun.lab.results.settings import SettingReplica
from longrun.lab.results.statistics import scores_of
from longrun.learning.envs.native.lookup import is_native

MOST_EACH = 600_000
"""characters of the pictures of one environment"""
TIMEOUT = 180
"""seconds for one environment"""


class FilmedPolicy(NamedTuple):
    """The first seed of the setting with the highest final score in its environment."""

    env: str
    label: str
    replica: SettingReplica


def best_policies(settings: Sequence[ReportedSetting]) -> list[FilmedPolicy]:
    """One for each environment that can be rendered; those in JAX cannot.

    The highest average reward, among settings that keep limits on costs best where there are any.
    """
    evaluated = [s.evaluation for s in settings if s.evaluation and len(s.evaluation.steps)]
    shares = feasible_shares(evaluated)
    best: dict[str, tuple[tuple[float, float], Setting]] = {}
    for found in (s for s in evaluated if not is_native(s.env)):
        score = float(scores_of(found, "average_reward")[0].mean())
        rank = shares[found.env, found.label], score
        if found.env not in best or rank > best[found.env][0]:
            best[found.env] = rank, found
    return [FilmedPolicy(env, found.label, found.replicas[0]) for env, (_, found) in best.items()]


def never_rendered(settings: Sequence[ReportedSetting]) -> list[str]:
    """The environments in JAX, which have evaluated policies and no renderer."""
    return list(dict.fromkeys(s.env for s in settings if s.evaluation and is_native(s.env)))


def film(policy: FilmedPolicy, characters: int = MOST_EACH, trust: bool = False) -> dict[str, Any]:
    """The pictures, or a `note` of one line with the reason why there are none."""
    failed: list[dict[str, Any]] = []
    for backend in backends():
        found = _render(policy.replica, min(characters, MOST_EACH), trust, backend)
        if not found.pop("again", False):
            return found
        failed.append(found)
    return failed[0]  # the preferred backend has the most useful message


def backends() -> list[str | None]:
    """Backends for MuJoCo: the user's choice, or on Linux first a GPU, then software."""
    if os.environ.get("MUJOCO_GL") or not sys.platform.startswith("linux"):
        return [None]
    return ["egl", "osmesa"]


def _render(
    replica: SettingReplica, characters: int, trust: bool, backend: str | None
) -> dict[str, Any]:
    chosen = {} if backend is None else {"MUJOCO_GL": backend}
    module = "longrun.lab.report.rendering"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "frames.json"
        where = [str(replica.run), str(replica.index), str(characters), str(int(trust)), str(out)]
        try:
            done = subprocess.run(
                # -P: modules in the working directory must not shadow others
                [sys.executable, "-P", "-W", "ignore", "-m", module, *where],
                env=os.environ | chosen | {"JAX_PLATFORMS": "cpu"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return {"note": f"the renderer took more than {TIMEOUT} s"}
        if done.returncode == 0 and out.exists():
            content: dict[str, Any] = read_json(out)
            return content
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        last = lines[-1] if lines else "no message"
        note = f"the renderer ended with status {done.returncode}: {last[:300]}"
        return {"note": note, "again": True}
