"""What made an environment: its name, its arguments, and a fingerprint of code and values.

Two runs are of one problem only if their fingerprints are equal. Nothing here calls code of the
environment: bytecode, attributes and closures are read as they are.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import sys
import types
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Space
from gymnasium.vector import VectorEnv

LIBRARIES = ("longrun", "gymnasium", "numpy", "jax", "jaxlib", "mujoco", "scipy")
PLAIN = (bool, int, float, complex, str, bytes, types.NoneType)
MOST_WORDS = 100_000
MOST_ATTRIBUTES = 30
"""Numbers of an environment that are recorded, so that a table can say in which two differ."""


def env_source(env: Any, made: Any) -> dict[str, Any]:
    """For config.json: `env` as the user gave it, and an environment that it has made.

    Of a registered id the registration counts, and not the code: a version is part of the id.
    """
    inner = getattr(made, "unwrapped", made)
    func, arguments = _call(env)
    spec = getattr(made, "spec", None)
    is_id = isinstance(env, str)
    return {
        "made_by": str(getattr(spec, "entry_point", "")) if is_id else _qualified(func),
        "arguments": arguments,
        "attributes": {} if is_id else _numbers(inner),
        "fingerprint": _fingerprint(made, [spec] if is_id else [env, inner, spec]),
    }


def _call(env: Any) -> tuple[Any, list[str]]:
    """What is called to make the environment, and its arguments as text."""
    if isinstance(env, functools.partial):
        values = [_text(v) for v in env.args if not isinstance(v, EnvSpec)]
        return env.func, [*values, *(f"{k}={_text(v)}" for k, v in env.keywords.items())]
    return env if callable(env) and not isinstance(env, gymnasium.Env | VectorEnv) else type(
        env
    ), []


def _text(value: Any) -> str:
    return repr(value)[:80] if isinstance(value, PLAIN) else _qualified(value)


def _numbers(env: object) -> dict[str, float | bool]:
    """Attributes that are numbers. No strings, which may be passwords."""
    found = {k: v for k, v in _attributes(env).items() if type(v) in (bool, int, float)}
    finite = {k: v for k, v in found.items() if not k.startswith("_") and np.isfinite(v)}
    return dict(sorted(finite.items())[:MOST_ATTRIBUTES])


def _attributes(value: object) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):  # and not what it has computed since, and keeps
        return {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
    try:
        return dict(vars(value))
    except TypeError:
        return {}


def _qualified(value: Any) -> str:
    """Module and name of a class or function, or of the class of anything else."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{getattr(named, '__module__', '')}.{named.__qualname__}"


def _fingerprint(made: Any, causes: list[Any]) -> str:
    spaces = [repr(getattr(made, f"{n}_space", None)) for n in ("observation", "action")]
    words = chain(spaces, *(_words(cause, set()) for cause in causes))
    digest = hashlib.sha256()
    with suppress(RecursionError):  # a chain of thousands of objects: its beginning must do
        for word in islice(words, MOST_WORDS):
            digest.update(word.encode("utf-8", "backslashreplace") + b"\0")
    return digest.hexdigest()[:16]


def _words(value: Any, seen: set[int]) -> Iterator[str]:
    """A text for everything that a value consists of; what is known already is left out."""
    if isinstance(value, PLAIN):
        yield repr(value)
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    yield _qualified(value)
    yield from _parts(value, seen)


def _parts(value: Any, seen: set[int]) -> Iterator[str]:
    if hasattr(type(value), "__array__") and hasattr(value, "dtype"):  # of NumPy or JAX
        array = np.asarray(value)
        yield f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"
    elif isinstance(value, list | tuple):
        yield from _all(value, seen)
    elif isinstance(value, dict):
        yield from _all([part for item in value.items() for part in item], seen)
    elif isinstance(value, functools.partial):
        yield from _all([value.func, value.args, value.keywords], seen)
    elif isinstance(value, types.CodeType):
        yield value.co_code.hex() + " ".join(value.co_names)
        yield from _all(value.co_consts, seen)
    elif isinstance(value, EnvSpec):
        yield f"{value.entry_point} {value.max_episode_steps}"
        yield from _all([value.kwargs], seen)
    elif isinstance(value, Space | np.random.Generator | types.ModuleType) or _in_library(value):
        return  # its name is enough, or it changes while an environment runs
    elif isinstance(value, types.FunctionType):
        yield from _function(value, seen)
    elif isinstance(value, type):
        members = {k: v for k, v in vars(value).items() if not k.startswith("__") or callable(v)}
        yield from _all([*value.__bases__, members], seen)
    else:
        members = {k: v for k, v in _attributes(value).items() if k != "_np_random"}
        yield from _all([type(value), members], seen)


def _function(function: types.FunctionType, seen: set[int]) -> Iterator[str]:
    """Code, defaults, closure, and what the code names among the globals.

    Lists among the globals are left out: they are more often a log than a setting.
    """
    code, cells = function.__code__, function.__closure__ or ()
    used = {n: function.__globals__[n] for n in code.co_names if n in function.__globals__}
    settings = {name: value for name, value in used.items() if not isinstance(value, list)}
    closure = [cell.cell_contents for cell in cells if cell != types.CellType()]
    yield from _all([code, function.__defaults__, function.__kwdefaults__, closure, settings], seen)


def _all(values: Any, seen: set[int]) -> Iterator[str]:
    for value in values:
        yield from _words(value, seen)


def _in_library(value: Any) -> bool:
    """Whether it is code of an installed package, or an environment of one.

    Objects of these classes, such as a queueing network, are read like any others.
    """
    named = value if isinstance(value, type | types.FunctionType) else type(value)
    module = str(getattr(named, "__module__", ""))
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return True
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    is_code = isinstance(value, type | types.FunctionType | gymnasium.Env)
    return is_code and (top in LIBRARIES or "site-packages" in Path(file).parts)
