"""The page: one HTML file that holds its style, its script, its data and its pictures."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from rich.console import Console

from longrun.base.files import read_json, write_bytes
from longrun.lab.report.data import page_data
from longrun.lab.report.runs import Folder, read_folder
from longrun.lab.results.comparison_table import ranked
from longrun.lab.results.settings import Setting, SettingReplica
from longrun.learning.envs.native.protocol import is_native

PARTS = ("", ".controls", ".chart", ".hover", ".tables", ".about")
SCRIPTS = [f"page{part}.js" for part in PARTS]
MOST_OF_FRAMES = 1_400_000
"""characters of all pictures together"""
MOST_EACH = 600_000
"""characters of the pictures of one environment"""
TIMEOUT = 180
"""seconds for one environment"""


def write_report(path: Path, out: Path, frames: bool = True, trust: bool = False) -> None:
    """Write the page of a run, a sweep or a folder of these; a FolderError for any other.

    `trust` imports modules that runs name for their environments, to film these.
    """
    folder = read_folder(path)
    data = page_data(folder)
    if frames:
        names = {(s["env"], s["label"]): s["name"] for s in data["settings"]}
        settings = best_policies(folder)
        for each in settings:
            first = each.replicas[0]
            with Console(stderr=True).status(f"drawing {each.env}"):
                pictures = film(first, MOST_OF_FRAMES // len(settings), trust)
            who = {"env": each.env, "setting": names[each.key], "seed": first.seed}
            data["frames"].append(who | pictures)
        tasks = folder.comparison.tasks if folder.comparison else []
        if native := [env for env in tasks if is_native(env)]:
            note = "environments in JAX cannot be rendered"
            data["frames"].append({"env": ", ".join(native), "note": note})
    write_bytes(out, page(data).encode(errors="backslashreplace"))  # names may be no text


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


def page(data: dict[str, Any]) -> str:
    """The HTML; text is escaped, and JSON cannot end its element, whatever the data contains."""
    style = _asset("page.css")
    script = '(() => {\n"use strict";\n' + "\n".join(map(_asset, SCRIPTS)) + "})();"
    # Only this script may run, only this style applies, and nothing may be loaded.
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    words = {name: html.escape(data[name]) for name in ("title", "folder", "result", "made")}
    return Template(_asset("page.html")).substitute(
        words, policy=policy, style=style, script=script, data=as_json(data)
    )


def as_json(data: Any) -> str:
    """JSON for a <script> element, without '<': '</script' and '<!--' have a meaning there."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", r"\u003c")


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The hash by which a content security policy allows an inline script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
