"""What a user names as 'module:name'; the module may be in the working directory."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from longrun.base.errors import InputError, listed


def import_user_module(module: str) -> ModuleType:
    """Import a module that the user names.

    The working directory comes last on Python's path, so that its files hide no other module.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return import_module(module)
    except SystemExit as error:
        raise InputError(f"module '{module}' ends when it is imported: {error!r}") from None


def why_not_imported(module: str, error: ImportError) -> str:
    """An error of `import_user_module` as text; with the fix where the module itself is missing."""
    if error.name is None or not f"{module}.".startswith(f"{error.name}."):
        return str(error)
    file = f"{module.replace('.', '/')}.py"
    return f"{error}; start in the folder that has {file}, or install the module"


def require_module(text: str) -> None:
    """Raise InputError if a file is named in 'module:name' instead of its module."""
    file, _, name = text.rpartition(":")
    if file.endswith(".py"):
        path = Path(os.path.relpath(file)).with_suffix("")
        module = path.name if ".." in path.parts else ".".join(path.parts)
        raise InputError(f"'{text}' names a file where its module is needed; write {module}:{name}")


def named_object(text: str) -> Any:
    """The object that 'module:name' is. Raises InputError if there is none."""
    require_module(text)
    module, _, name = text.rpartition(":")
    try:
        home = import_user_module(module)
    except ImportError as error:
        raise InputError(f"'{text}': {why_not_imported(module, error)}") from None
    if not hasattr(home, name):
        own = [n for n, v in vars(home).items() if callable(v) and not n.startswith("_")]
        has = f"it has {listed(own)}" if own else "it has no function"
        raise InputError(f"module '{module}' has no '{name}'; {has}")
    return getattr(home, name)
