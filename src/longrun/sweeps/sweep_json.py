"""sweep.json, also as earlier versions wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longrun.files import read_json

MEANING = 2
"""Version of what preset names in sweep.json mean. Version 1, which is not written in the file, had
no `action_bounds` and clipped actions."""
FIRST_PAPER = {"action_bounds": "clip"}
"""Options in which the `paper` preset of version 1 differs from the present one."""


def read_sweep(path: Path) -> dict[str, Any]:
    """The content of the folder's sweep.json, with presets in their present meaning."""
    content: dict[str, Any] = read_json(path / "sweep.json")
    if not isinstance(content, dict) or content.get("meaning", 1) >= MEANING:
        return content
    planned = [*content.get("runs", []), *(s.get("block") for s in content.get("search", []))]
    for each in planned:
        if isinstance(each, dict) and each.get("preset") == "paper":
            each["fixed"] = FIRST_PAPER | each.get("fixed", {})
    return content | {"meaning": MEANING}
