"""The tabular package imports no other part of the library and no slow package by default."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import longrun.exact.tabular

PACKAGE = Path(longrun.exact.tabular.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
HEAVY = ("matplotlib", "gymnasium", "jax", "rich", "mujoco", "longrun.cli", "longrun.learning.envs")


def imported(path: Path) -> Iterator[str]:
    """Full names of all imports of a file, at any level."""
    package = ["longrun", "exact", "tabular", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*parents, node.module] if node.module else parents)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def test_the_files_are_found() -> None:
    names = {str(path.relative_to(PACKAGE)) for path in FILES}
    assert {"mdp.py", "models.py", "solvers/policy_iteration.py"} <= names
    assert "longrun.exact.tabular.mdp.MDP" in set(
        imported(PACKAGE / "solvers" / "policy_iteration.py")
    )


def test_no_other_part_of_the_library_is_imported() -> None:
    allowed = ("longrun.exact.tabular", "longrun.base")
    others = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in FILES
        for name in imported(path)
        if name.split(".")[0] == "longrun" and not name.startswith(allowed)
    ]
    assert not others, "\n".join(others)


def test_importing_it_imports_no_slow_package() -> None:
    code = f"import sys, longrun.tabular; print([m for m in {HEAVY} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_environments_import_no_solvers() -> None:
    code = """
import sys, longrun.learning.envs.builtin_envs as envs
for name in ("access-control", "criss-cross", "inventory"):
    envs.make_builtin(name, {}).spaces
print([m for m in sys.modules if m.startswith(("scipy.sparse", "longrun.exact.tabular."))])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "['longrun.exact.tabular.laws']\n"
