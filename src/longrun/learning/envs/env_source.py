"""What made an environment, for config.json: its name, arguments, numbers and identity.

By their identity runs of the same environment are found: two runs are of the same one if its id, or
its class or function, the text of the files that define it (not those of installed libraries), and
the plain values it was made with are the same; or if they have the same `name=`. No code of an
environment is called for it, and every process finds the same: no address and no hash of Python is
in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import pickle
import sys
import types
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

PLAIN = (bool, int, float, complex, str, bytes, types.NoneType)
STANDARD = sys.stdlib_module_names - {"__main__"}
INSTALLED = {"site-packages", "dist-packages"}
USE = ("_np_random", "_cached_spec")
"""Attributes that are made while an object is used, as those of cached properties are."""
PLACES = ("__firstlineno__", "__static_attributes__")
"""Members of a class that tell where in a text it is."""
MOST_WORDS = 1_000_000
HELD = {property: "fget", functools.cached_property: "func"}
HELD |= {staticmethod: "__func__", classmethod: "__func__"}
Seen = dict[int, tuple[int, Any]]
MOST_ATTRIBUTES = 30
"""Numbers of an environment that are recorded, so that a table can say in which two differ."""


def env_source(env: Any, made: Any) -> dict[str, Any]:
    """What config.json has of `env` as the user gave it, and of an environment that it has made."""
    inner, spec = getattr(made, "unwrapped", made), getattr(made, "spec", None)
    copied = isinstance(env, functools.partial) and env.func is pickle.loads
    arguments: list[str] = []
    if isinstance(env, str):
        made_by, causes = getattr(spec, "entry_point", ""), [spec, type(inner)]
    elif copied or not callable(env) or isinstance(env, gymnasium.Env | VectorEnv):
        made_by, causes = type(made), [made]
    else:
        made_by, causes = env, [env, made]
        if isinstance(env, functools.partial):
            made_by = env.func
            arguments = [_text(v) for v in env.args if not isinstance(v, EnvSpec)]
            arguments += [f"{k}={_text(v)}" for k, v in env.keywords.items()]
    numbers = {} if isinstance(env, str) else numbers_of(inner)  # no strings: maybe passwords
    shown = {k: v for k, v in numbers.items() if not k.startswith("_") and np.isfinite(v)}
    return {
        "made_by": made_by if isinstance(made_by, str) else qualified(made_by),
        "arguments": arguments,
        "attributes": dict(sorted(shown.items())[:MOST_ATTRIBUTES]),
        "identity": identity_of(causes),
    }


def _text(value: Any) -> str:
    return repr(value)[:80] if isinstance(value, PLAIN) else qualified(value)


def identity_of(causes: list[Any], seen: Seen | None = None, sets: int = 0) -> str:
    """A digest of everything that these objects consist of, inside so many sets."""
    digest = hashlib.sha256()
    for word in islice(_words(causes, dict(seen or {}), sets), MOST_WORDS):
        digest.update(word.encode("utf-8", "backslashreplace") + b"\0")
    return digest.hexdigest()[:16]


def numbers_of(value: object) -> dict[str, float | bool]:
    """The numbers among an object's attributes."""
    return {k: v for k, v in _attributes(value).items() if type(v) in (bool, int, float)}


def qualified(value: Any) -> str:
    """Module and name of a class or function, or of the class of anything else."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{getattr(named, '__module__', '')}.{named.__qualname__}"


def _words(causes: list[Any], seen: Seen, sets: int) -> Iterator[str]:
    """A text for each thing that these consist of; what comes again is named by its number."""
    left = causes[::-1]
    while left:
        value = left.pop()
        if isinstance(value, PLAIN):
            yield repr(value)
        elif id(value) in seen:
            yield f"number {seen[id(value)][0]}"
        else:
            seen[id(value)] = len(seen), value  # it is kept, so that no other gets its id
            is_set = isinstance(value, set | frozenset)
            word, parts = ("set", _in_order(value, seen, sets)) if is_set else _read(value)
            yield f"{word} {len(parts)}"
            left += parts[::-1]


def _in_order(members: Any, seen: Seen, sets: int) -> list[Any]:
    """Members of a set, which Python orders by addresses and random hashes."""
    plain = sorted((each for each in members if isinstance(each, PLAIN)), key=repr)
    others = [each for each in members if not isinstance(each, PLAIN)]
    if sets > isinstance(members, frozenset):  # else neighbours of neighbours take too long
        return [*plain, len(others)]
    return plain + sorted(others, key=lambda each: identity_of([each], seen, sets + 1))


def _read(value: Any) -> tuple[str, list[Any]]:
    """A text for a value that is not plain, and what it consists of besides."""
    kind = type(value)
    if isinstance(value, list | tuple):
        return kind.__name__, list(value)
    if isinstance(value, dict):
        return kind.__name__, [part for item in value.items() for part in item]
    if isinstance(value, functools.partial):
        return "partial", [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return "method", [value.__func__, value.__self__]
    if kind in HELD:
        return kind.__name__, [getattr(value, HELD[kind])]
    if isinstance(value, types.CodeType):
        return f"{value.co_code.hex()} {value.co_names}", list(value.co_consts)
    if isinstance(value, types.FunctionType):
        return f"{value.__qualname__} {_home(value)}", _of_function(value)
    if isinstance(value, type):
        return f"{value.__qualname__} {_home(value)}", _of_class(value)
    if isinstance(value, EnvSpec):
        limit, wrappers = value.max_episode_steps, value.additional_wrappers
        return "spec", [value.entry_point, value.kwargs, limit, wrappers]
    return _of_object(value)


def _of_object(value: Any) -> tuple[str, list[Any]]:
    """Class and attributes; less of objects of libraries, which hold what is of a process."""
    kind, attributes = type(value), _attributes(value)
    if not _is_installed(kind):
        return "object", [kind, attributes]
    if isinstance(value, gymnasium.Wrapper) and "_saved_kwargs" in attributes:  # others are its use
        return "wrapper", [kind, attributes["_saved_kwargs"], attributes.get("env")]
    if hasattr(kind, "__array__"):
        return _of_array(value)
    if str(kind.__module__).partition(".")[0] in STANDARD:
        return qualified(value), []  # such as a logger, which knows of all others
    if isinstance(spec := attributes.get("spec"), EnvSpec):  # other attributes may be local paths
        return "registered", [kind, spec, numbers_of(value)]
    return qualified(value), [kind, attributes]


def _of_array(value: Any) -> tuple[str, list[Any]]:
    try:
        array = np.asarray(value)
    except Exception:  # such as keys of random numbers, or what is on another device
        return qualified(value), []
    if array.dtype.hasobject:  # whose bytes are addresses
        return "objects", list(array.ravel())
    return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}", []


def _of_function(function: types.FunctionType) -> list[Any]:
    """Defaults, closure, code (by which lambdas of a file differ), and plain globals it names."""
    code, cells = function.__code__, function.__closure__ or ()
    closure = [cell.cell_contents for cell in cells if cell != types.CellType()]
    made_with = [function.__defaults__, function.__kwdefaults__, closure]
    if _is_installed(function):
        return made_with
    return [*made_with, code, _globals(function)]


def _globals(member: Any) -> list[Any]:
    """Plain globals that a function names, or one that a member of a class holds."""
    if type(member) in HELD:
        member = getattr(member, HELD[type(member)])
    if not isinstance(member, types.FunctionType | functools._lru_cache_wrapper):
        return []
    member = inspect.unwrap(member)
    codes = [member.__code__] if isinstance(member, types.FunctionType) else []
    for code in codes:  # which grows by those of functions inside
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    names = [name for code in codes for name in code.co_names if not name.startswith("__")]
    return [v for v in map(member.__globals__.get, names) if isinstance(v, PLAIN)] if codes else []


def _of_class(kind: type) -> list[Any]:
    """Bases of a class and plain globals it names; without a file, as in a notebook, members."""
    if _is_installed(kind):
        return []
    members = {n: v for n, v in vars(kind).items() if n not in PLACES}
    return [*kind.__bases__, [_globals(v) for v in members.values()] if _home(kind) else members]


def _attributes(value: object) -> dict[str, Any]:
    """Fields by which a dataclass is compared; of other objects all that is not their use."""
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if field.compare]
        return {name: getattr(value, name, None) for name in fields}
    own = dict(getattr(value, "__dict__", {}))
    members = {n: v for base in type(value).__mro__[::-1] for n, v in vars(base).items()}
    for name, member in members.items():
        if isinstance(member, types.MemberDescriptorType):  # of __slots__
            with contextlib.suppress(AttributeError):
                own[name] = member.__get__(value)
    cached = {n for n, v in members.items() if isinstance(v, functools.cached_property)}
    return {n: v for n, v in own.items() if n not in cached and not n.startswith(USE)}


def _home(named: Any) -> str:
    """A digest of the file of a class or function, "" without one; of an installed one its module.

    It is read each time: a notebook may load a file again that has changed.
    """
    if _is_installed(named):
        return str(named.__module__)
    try:
        return hashlib.sha256(_file(named).read_bytes().replace(b"\r\n", b"\n")).hexdigest()
    except OSError:
        return ""


def _is_installed(named: Any) -> bool:
    """Whether a class or function is of an installed library, this one or Python's."""
    top = str(named.__module__).partition(".")[0]
    return top in {"longrun", *STANDARD} or bool(INSTALLED & set(_file(named).parts))


def _file(named: Any) -> Path:
    return Path(getattr(sys.modules.get(str(named.__module__)), "__file__", None) or "")
