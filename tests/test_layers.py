"""Imports between packages point downwards only: no cycle, and no package knows those above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "longrun"
LAYERS = (
    ("__main__",),
    ("cli",),
    ("paper",),
    ("sweeps",),
    ("policy_map",),
    ("algorithms",),
    ("agent",),
    ("callbacks",),
    ("results",),
    ("train",),
    ("builtin_envs",),
    ("queueing",),
    ("learn",),
    ("policy",),
    ("onnx_export",),
    ("checkpoint_files",),
    ("envs",),
    ("config_options",),
    ("config",),
    ("option_fields",),
    ("presets",),
    ("other_names",),
    ("tabular",),
    ("picture_files",),
    ("files",),
    ("memory",),
    ("student",),
    ("errors",),
)
"""From the top to the bottom; modules and packages of a layer do not import each other."""
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def unit_of(module: str) -> str:
    """The package or module below `longrun` that a dotted name belongs to."""
    return module.split(".")[1]


def imported(file: Path) -> Iterator[str]:
    """Dotted names of what a file imports from longrun, at its top or inside functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "longrun":
            yield from (f"longrun.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("longrun."):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("longrun."))


FILES = [file for file in sorted(SOURCE.rglob("*.py")) if file != SOURCE / "__init__.py"]


def test_every_package_has_its_layer() -> None:
    units = {file.relative_to(SOURCE).parts[0].removesuffix(".py") for file in FILES}
    assert units == set(RANK)


def test_imports_point_downwards() -> None:
    upwards, count = [], 0
    for file in FILES:
        path = file.relative_to(SOURCE)
        own = path.parts[0].removesuffix(".py")
        for module in imported(file):
            unit = unit_of(module)
            count += 1
            if unit not in (own, "__version__") and RANK[own] >= RANK[unit]:
                upwards.append(f"{path} imports {module}, which is above it")
    assert not upwards, "\n".join(upwards)
    assert count > len(FILES)
