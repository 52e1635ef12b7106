"""The table of all options, from the fields of the configurations."""

from __future__ import annotations

import dataclasses

from longrun.learning.options.config import ALGORITHMS
from longrun.learning.options.config_options import make_config, values_text

HEAD = "| option | default | of | meaning |\n|---|---|---|---|"


def options_table() -> str:
    """A row for each option: name, default of the default preset, algorithms that have it."""
    configs = {name.upper(): make_config(name) for name in ALGORITHMS}
    fields = {f.name: f for config in configs.values() for f in dataclasses.fields(config)}
    rows = [HEAD]
    for name, field in fields.items():
        values = {
            a: getattr(config, name) for a, config in configs.items() if hasattr(config, name)
        }
        of = "all" if len(values) == len(configs) else ", ".join(values)
        meaning = field.metadata["help"].replace("|", "\\|")
        rows.append(f"| `{name}` | {values_text(values)} | {of} | {meaning} |")
    return "\n".join(rows)
