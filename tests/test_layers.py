"""Imports between packages point downwards only: no cycle, and no package knows those above it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "longrun"
LAYERS = (
    ("__main__",),
    ("cli",),
    ("callbacks", "queueing", "tabular"),  # doors: they define nothing
    ("lab.paper", "lab.report", "lab.policy_map"),
    ("lab.sweeps",),
    ("lab.results",),
    ("lab.policy_map",),
    ("learning.algorithms",),
    ("learning.agent",),
    ("learning.callbacks",),
    ("learning.train",),
    ("learning.learn",),
    ("learning.policy",),
    ("learning.runs",),
    ("learning.envs",),
    ("exact.queueing",),
    ("exact.tabular",),
    ("learning.options",),
    ("base",),
)
"""From the top to the bottom; modules and packages of a layer do not import each other."""
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


WINGS = ("learning", "exact", "lab")


def unit_of(module: str) -> str:
    """The package or module below `longrun`, or below one of its wings, of a dotted name."""
    parts = module.split(".")[1:]
    return ".".join(parts[: 2 if parts[0] in WINGS else 1])


def dotted(file: Path) -> str:
    """The name of a module."""
    path = file.relative_to(SOURCE.parent).with_suffix("")
    return ".".join(path.parent.parts if path.name == "__init__" else path.parts)


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
    units = {unit_of(dotted(file)) for file in FILES}
    assert units - set(WINGS) == set(RANK)


def test_imports_point_downwards() -> None:
    upwards, count = [], 0
    for file in FILES:
        path = file.relative_to(SOURCE)
        own = unit_of(dotted(file))
        for module in imported(file):
            unit = unit_of(module)
            count += 1
            if unit in (own, "__version__", *WINGS) or own in WINGS:
                continue
            if RANK[own] >= RANK[unit]:
                upwards.append(f"{path} imports {module}, which is above it")
    assert not upwards, "\n".join(upwards)
    assert count > len(FILES)


def test_the_exact_wing_imports_nothing_of_the_others() -> None:
    outside = [
        f"{file.relative_to(SOURCE)} imports {module}"
        for file in FILES
        if dotted(file).startswith("longrun.exact.")
        for module in imported(file)
        if not module.startswith(("longrun.exact", "longrun.base", "longrun.__version__"))
    ]
    assert not outside, "\n".join(outside)
