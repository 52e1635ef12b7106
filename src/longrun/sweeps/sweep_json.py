"""sweep.json, also as earlier versions wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longrun.config import ALGORITHMS
from longrun.files import read_json
from longrun.sweeps.plan import options_for

MEANING = 4
"""Version of what preset names in sweep.json mean; a file without a version has version 1."""
EARLIER: dict[int, dict[str, dict[str, Any]]] = {
    1: {"paper": {"action_bounds": "clip"}},
    2: {
        "tuned": {
            "gae_lambda": 0.95,
            "num_envs": 10,
            "rollout_steps": 200,
            "minibatch_size": 100,
            "epochs": 10,
            "initial_log_std": -0.5,
        }
    },
    3: {"tuned": {"adaptive_lambda": False}},
}
"""Version -> preset -> its values up to that version of the options that the next one changed."""


def read_sweep(path: Path) -> dict[str, Any]:
    """The content of the folder's sweep.json, with presets in their present meaning."""
    content: dict[str, Any] = read_json(path / "sweep.json")
    if not isinstance(content, dict) or content.get("meaning", 1) >= MEANING:
        return content
    planned = [*content.get("runs", []), *(s.get("block") for s in content.get("search", []))]
    for each in planned:
        if isinstance(each, dict):
            earlier = _earlier_values(content.get("meaning", 1), each)
            each["fixed"] = earlier | each.get("fixed", {})
    return content | {"meaning": MEANING}


def _earlier_values(meaning: int, planned: dict[str, Any]) -> dict[str, Any]:
    """Options of a run's algorithm in which its preset had other values in that version."""
    values: dict[str, Any] = {}
    for version in sorted(EARLIER, reverse=True):  # the older version's values are the ones to keep
        if version >= meaning:
            values |= EARLIER[version].get(str(planned.get("preset")), {})
    algorithm = str(planned.get("algorithm"))
    return options_for(algorithm, values) if algorithm in ALGORITHMS else values
