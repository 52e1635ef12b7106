"""Environments of other JAX libraries, each behind `longrun.learning.envs.native.Environment`.

An adapter for a library is a module of this package that offers one function:

    make(name: str, args: dict[str, Any]) -> Environment

For the env string 'gymnax:Pendulum-v1?max_steps_in_episode=100' it gets the name 'Pendulum-v1' and
the arguments {'max_steps_in_episode': 100}. It imports the library with `import_package`, checks
the name with `env_id` and the arguments with `time_limit`, and returns an `Adapted`, whose
`env_name` is `join_env(prefix:name, args)`.

The environment must not reset itself, count its steps, or clip its actions: `batching.py` does that
for all. Its observations are those of the true successor, and its time limit is not a termination.
`brax_like.py` serves libraries with Brax's interface; `gymnax.py` is an example of another one.
`protocol_check.require_sound` finds most mistakes by tracing.

The prefix is entered in `NATIVE_MAKERS` of `env_strings.py`, the library as an extra of
the same name in pyproject.toml, and tests/native/test_adapters.py gets a few of its environments.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.learning.envs.native.protocol import Environment
from longrun.learning.envs.spaces import Spaces


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


def env_id(prefix: str, name: str, names: Iterable[str]) -> str:
    """'prefix:name', or an InputError if it is none of the library's `names`."""
    found = f"{prefix}:{name}"
    known("environment", found, sorted(f"{prefix}:{each}" for each in names))
    return found


def time_limit(env: str, args: dict[str, Any], defaults: dict[str, Any], name: str) -> int:
    """The argument of this name, in steps, 0 for never; all arguments are checked.

    Raises InputError for those that are unknown, or of another kind than their defaults.
    """
    for key, value in args.items():
        known(f"argument of '{env}'", key, sorted(defaults))
        kind = _kind(defaults[key])
        if kind is not None and _kind(value) != kind:
            raise InputError(f"{key}={value!r} of '{env}' must be {kind}")
    limit = args.get(name, int(defaults[name]))
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise InputError(f"{name}={limit!r} of '{env}' must be a whole number; 0 is no limit")
    return limit


@dataclass(frozen=True)
class Adapted(Environment):
    """An environment of a library. Equal names mean equal ones, which share compiled programs."""

    env_name: str
    env: Any = field(compare=False, repr=False)
    sizes: Spaces = field(compare=False, repr=False)
    time_limit: int = field(compare=False)

    @property
    def name(self) -> str:
        return self.env_name

    @property
    def spaces(self) -> Spaces:
        return self.sizes


def _kind(value: Any) -> str | None:
    """None for values that are not checked: an unset default, a list, a table."""
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, int | float):
        return "a number"
    return "a string" if isinstance(value, str) else None
