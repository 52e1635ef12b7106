"""The table of all options, from the fields of the configurations."""

from __future__ import annotations

import dataclasses

from longrun.config import ALGORITHMS
from longrun.config_options import value_text
from longrun.presets import DEFAULT, PRESETS

HEAD = "| option | default | of | meaning |\n|---|---|---|---|"


def options_table() -> str:
    """A row for each option: name, default of the default preset, algorithms that have it."""
    kinds = {name.upper(): kind for name, kind in ALGORITHMS.items()}
    fields = {f.name: f for kind in kinds.values() for f in dataclasses.fields(kind)}
    rows = [HEAD]
    for name, field in fields.items():
        owners = [
            a for a, kind in kinds.items() if name in {f.name for f in dataclasses.fields(kind)}
        ]
        default = PRESETS[DEFAULT].get(name, field.default)
        of = "all" if len(owners) == len(kinds) else ", ".join(owners)
        meaning = field.metadata["help"].replace("|", "\\|")
        rows.append(f"| `{name}` | {value_text(default, ' ')} | {of} | {meaning} |")
    return "\n".join(rows)
