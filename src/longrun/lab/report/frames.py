"""Pictures of policies: of which ones, drawn in a process of its own since OpenGL may crash."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from longrun.base.files import read_json
from longrun.lab.report.runs import Folder
from longrun.lab.results.settings import Setting, SettingReplica
from longrun.lab.results.verdict import ranked
from longrun.learning.envs.native.protocol import is_native

MOST_EACH = 600_000
"""characters of the pictures of one environment"""
TIMEOUT = 180
"""seconds for one environment"""


def best_policies(folder: Folder) -> list[Setting]:
    """The best setting of each environment that can be rendered; those in JAX cannot."""
    found = folder.comparison
    evaluated = {s.evaluation.key: s.evaluation for s in folder.settings if s.evaluation}
    envs = [env for env in found.tasks if not is_native(env)] if found else []
    return [evaluated[env, ranked(found, env)[0]] for env in envs] if found else []


def film(
    replica: SettingReplica, characters: int = MOST_EACH, trust: bool = False
) -> dict[str, Any]:
    """The pictures, or a `note` of one line with the reason why there are none."""
    found: list[dict[str, Any]] = []
    for backend in backends():
        found.append(_render(replica, min(characters, MOST_EACH), trust, backend))
        if "note" not in found[-1]:
            return found[-1]
    return found[0]  # the preferred backend has the most useful message


def backends() -> list[dict[str, str]]:
    """Environment variables for MuJoCo: the user's, or on Linux first a GPU, then software."""
    if os.environ.get("MUJOCO_GL") or not sys.platform.startswith("linux"):
        return [{}]
    return [{"MUJOCO_GL": "egl"}, {"MUJOCO_GL": "osmesa"}]


def _render(
    replica: SettingReplica, characters: int, trust: bool, backend: dict[str, str]
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "frames.json"
        arguments = [replica.run, replica.index, characters, int(trust), out]
        module = "longrun.lab.report.rendering"
        try:
            done = subprocess.run(
                # -P: modules in the working directory must not shadow others
                [sys.executable, "-P", "-W", "ignore", "-m", module, *map(str, arguments)],
                env=os.environ | backend | {"JAX_PLATFORMS": "cpu"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return {"note": f"the renderer took more than {TIMEOUT} s"}
        if out.exists():
            content: dict[str, Any] = read_json(out)
            return content
        last = (done.stderr.decode(errors="replace").splitlines() or ["no message"])[-1]
        return {"note": f"the renderer ended with status {done.returncode}: {last[:300]}"}
