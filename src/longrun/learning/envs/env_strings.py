"""Environment strings: an id and its arguments, as in 'brax:halfcheetah?backend=spring&limit=200'.

A value is JSON where it reads as JSON, and otherwise the text itself: `limit=200` is a number,
`backend=spring` a string, and `limit="200"` a string that looks like a number.

An id may be 'module:name', of a module that may be in the working directory.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from longrun.base.errors import InputError, listed

NATIVE_MAKERS = {
    "jax": ("longrun.learning.envs.builtin_envs", "make_builtin"),
    "brax": ("longrun.learning.envs.native.adapters.brax_like", "make_brax"),
    "playground": ("longrun.learning.envs.native.adapters.brax_like", "make_playground"),
    "gymnax": ("longrun.learning.envs.native.adapters.gymnax", "make"),
}
"""The prefix of an environment in JAX, as in 'brax:halfcheetah', to the module and its function
that makes it; any other prefix is a module of the user. An adapter for another library is one more
line here. The table is in this file, which does not import JAX, since worker processes read it."""
KEY = re.compile(r"[A-Za-z_][\w.]*")
"""A dot leads into nested settings, as in 'reward_config.scales'."""


def split_env(text: str) -> tuple[str, dict[str, Any]]:
    """The id and the arguments that an environment string consists of."""
    env_id, mark, query = text.partition("?")
    if mark and not env_id:
        raise InputError(f"env='{text}' has no id before '?'; write 'id?key=value'")
    args: dict[str, Any] = {}
    for pair in query.split("&") if mark else []:
        key, equals, value = pair.partition("=")
        if not equals or not KEY.fullmatch(key):
            raise InputError(
                f"env='{text}' has the argument '{pair}'; write 'id?key=value', more joined by '&'"
            )
        if key in args:
            raise InputError(f"env='{text}' has the argument '{key}' twice; leave one out")
        args[key] = _value(value)
    return env_id, args


def join_env(env_id: str, args: dict[str, Any]) -> str:
    """The environment string that `split_env` splits into this id and these arguments."""
    if not env_id or "?" in env_id:
        raise InputError(f"environment id '{env_id}' must be some text without '?'")
    if wrong := [key for key in args if not KEY.fullmatch(key)]:
        raise InputError(f"argument '{wrong[0]}' of '{env_id}' must be letters, digits, '_' or '.'")
    pairs = (f"{key}={written(env_id, key, value)}" for key, value in args.items())
    return f"{env_id}?{'&'.join(pairs)}" if args else env_id


def parse_args(pairs: Sequence[str]) -> dict[str, Any]:
    """Arguments from the command line, each as key=value."""
    if wrong := [pair for pair in pairs if "&" in pair or not pair.partition("=")[1]]:
        raise InputError(f"--env-args '{wrong[0]}' must look like regime=BM")
    return split_env(f"--env-args?{'&'.join(pairs)}")[1] if pairs else {}


def with_args(env: Any, args: Mapping[str, Any]) -> Any:
    """An environment string with arguments added; anything else takes none."""
    if not args:
        return env
    if not isinstance(args, Mapping):
        raise InputError(f"env_args={args!r} must be a dict, as {{'regime': 'BM'}}")
    if not isinstance(env, str):
        name = getattr(env, "__name__", type(env).__name__)
        given = ", ".join(f"{key}={value!r}" for key, value in args.items())
        raise InputError(
            f"env_args={dict(args)} need an environment named by a string, not {env}; write lambda:"
            f" {name if name.isidentifier() else 'Class'}({given}), or name it as 'module:Class'"
        )
    env_id, own = split_env(env)
    return join_env(env_id, own | dict(args))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def written(env_id: str, key: str, value: Any) -> str:
    """The shortest text for a value: quotes only around strings that would read as another value"""
    if isinstance(value, str) and "&" not in value and _value(value) == value:
        return value
    try:
        # An '&' can stand in a string alone, where JSON has another spelling for it.
        return json.dumps(value, separators=(",", ":")).replace("&", r"\u0026")
    except (TypeError, ValueError):
        raise InputError(
            f"argument {key}={value!r} of '{env_id}' cannot be written as text; use numbers,"
            " strings, True, False, None, or lists of these"
        ) from None


def env_string(name: str, builder: Callable[..., Any], **arguments: Any) -> str:
    """The string of a built-in environment: the arguments that are not the builder's defaults."""
    parameters = inspect.signature(builder).parameters
    changed = {key: v for key, v in arguments.items() if v != parameters[key].default}
    return join_env(f"jax:{name}", changed)


def arguments_of(env: Any) -> dict[str, Any]:
    """The arguments that an environment which is a dataclass was made with."""
    return {field.name: getattr(env, field.name) for field in dataclasses.fields(env)}


def user_module(text: str) -> ModuleType:
    """The module of 'module:name', or an InputError if there is none.

    The working directory comes last on Python's path, so that its files hide no other module.
    """
    module, _, name = text.rpartition(":")
    if module.endswith(".py"):
        path = Path(os.path.relpath(module)).with_suffix("")
        module = path.name if ".." in path.parts else ".".join(path.parts)
        raise InputError(f"'{text}' names a file where its module is needed; write {module}:{name}")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return import_module(module)
    except SystemExit as error:
        raise InputError(f"module '{module}' ends when it is imported: {error!r}") from None
    except ImportError as error:
        why = str(error)
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            file = f"{module.replace('.', '/')}.py"
            why += f"; start in the folder that has {file}, or install the module"
        raise InputError(f"'{text}': {why}") from None


def named_object(text: str) -> Any:
    """The object that 'module:name' is. Raises InputError if there is none."""
    home, name = user_module(text), text.rpartition(":")[2]
    if not hasattr(home, name):
        own = [n for n, v in vars(home).items() if callable(v) and not n.startswith("_")]
        has = f"it has {listed(own)}" if own else "it has no function"
        raise InputError(f"module '{home.__name__}' has no '{name}'; {has}")
    return getattr(home, name)
