"""Helpers of all adapters: import a package that may be missing, check names and values."""

from __future__ import annotations

import contextlib
import io
import warnings
from importlib import import_module
from typing import Any

from longrun.base.checks import known
from longrun.base.errors import InputError


def import_package(module: str, env: str, extra: str) -> Any:
    """The module, or an InputError that says what to install for this environment."""
    try:
        # Brax imports JAXopt, which warns that it is not maintained, and MJX prints that Warp is
        # missing, which environments use on request only.
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.filterwarnings("ignore", "JAXopt is no longer maintained", DeprecationWarning)
            return import_module(module)
    except ImportError as error:
        raise InputError(
            f"environment '{env}' needs the extra '{extra}' ({error}); install it with"
            f" pip install -e '.[{extra}]' in longrun's checkout"
        ) from None


def check_args(env: str, args: dict[str, Any], defaults: dict[str, Any]) -> None:
    """An InputError for arguments that are unknown, or of another kind than their defaults."""
    for name, value in args.items():
        known(f"argument of '{env}'", name, sorted(defaults))
        kind = _kind(defaults[name])
        if kind is not None and _kind(value) != kind:
            raise InputError(f"{name}={value!r} of '{env}' must be {kind}")


def check_time_limit(env: str, name: str, value: Any) -> int:
    """A whole number of steps from 0 (never)."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{name}={value!r} of '{env}' must be a whole number; 0 is no limit")
    return value


def _kind(value: Any) -> str | None:
    """None for values that are not checked: an unset default, a list, a table."""
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, int | float):
        return "a number"
    return "a string" if isinstance(value, str) else None
