"""sweep.json as it was meant when it was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longrun.files import read_json

MEANING = 2
"""Of the presets' names in a sweep.json; the first, which is not written down, had no
`action_bounds` and clipped actions."""
FIRST_PAPER = {"action_bounds": "clip"}
"""What the `paper` preset of the first meaning says otherwise than today's."""


def read_sweep(path: Path) -> dict[str, Any]:
    """The content of the folder's sweep.json, in today's terms."""
    content: dict[str, Any] = read_json(path / "sweep.json")
    if not isinstance(content, dict) or content.get("meaning", 1) >= MEANING:
        return content
    planned = [*content.get("runs", []), *(s.get("block") for s in content.get("search", []))]
    for each in planned:
        if isinstance(each, dict) and each.get("preset") == "paper":
            each["fixed"] = FIRST_PAPER | each.get("fixed", {})
    return content | {"meaning": MEANING}
