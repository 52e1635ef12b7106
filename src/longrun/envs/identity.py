"""The identity of an environment, by which runs of the same one are found.

Two runs are of the same environment if its id, or its class or function, the text of the files that
define it (not those of installed libraries), and the plain values it was made with are the same; or
if they have the same `name=`. No code of an environment is called for it, and every process finds
the same: no address and no hash of Python is in it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec

PLAIN = (bool, int, float, complex, str, bytes, types.NoneType)
STANDARD = sys.stdlib_module_names - {"__main__"}
INSTALLED = {"site-packages", "dist-packages"}
PLACES = ("__firstlineno__", "__static_attributes__")
"""Members of a class that tell where in a text it is."""
MOST_WORDS = 1_000_000


def identity_of(causes: list[Any]) -> str:
    """A digest of everything that these objects consist of."""
    digest = hashlib.sha256()
    for word in islice(_words(causes), MOST_WORDS):
        digest.update(word.encode("utf-8", "backslashreplace") + b"\0")
    return digest.hexdigest()[:16]


def numbers_of(value: object) -> dict[str, float | bool]:
    """The numbers among an object's attributes."""
    return {k: v for k, v in _attributes(value).items() if type(v) in (bool, int, float)}


def qualified(value: Any) -> str:
    """Module and name of a class or function, or of the class of anything else."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{getattr(named, '__module__', '')}.{named.__qualname__}"


def _words(causes: list[Any]) -> Iterator[str]:
    """A text for each thing that these consist of; what comes again is named by its number."""
    left = causes[::-1]
    seen: dict[int, tuple[int, Any]] = {}
    while left:
        value = left.pop()
        if isinstance(value, PLAIN):
            yield repr(value)
        elif id(value) in seen:
            yield f"number {seen[id(value)][0]}"
        else:
            seen[id(value)] = len(seen), value  # it is kept, so that no other gets its id
            word, parts = _read(value)
            yield f"{word} {len(parts)}"
            left += parts[::-1]


def _read(value: Any) -> tuple[str, list[Any]]:
    """A text for a value that is not plain, and what it consists of besides."""
    kind = type(value)
    if isinstance(value, list | tuple):
        return kind.__name__, list(value)
    if isinstance(value, dict):
        return kind.__name__, [part for item in value.items() for part in item]
    if isinstance(value, set | frozenset):
        return " ".join(sorted(repr(each) for each in value if isinstance(each, PLAIN))), []
    if isinstance(value, functools.partial):
        return "partial", [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return "method", [value.__func__, value.__self__]
    if isinstance(value, property | staticmethod | classmethod):
        return kind.__name__, [value.fget if isinstance(value, property) else value.__func__]
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
    if hasattr(kind, "__array__"):
        return _of_array(value)
    if str(kind.__module__).partition(".")[0] in STANDARD:
        return qualified(value), []  # such as a logger, which knows of all others
    if isinstance(spec := attributes.get("spec"), EnvSpec):  # other attributes may be local paths
        return "registered", [kind, spec, numbers_of(value)]
    return qualified(value), [kind, attributes]


def _of_array(value: Any) -> tuple[str, list[Any]]:
    """An array, tensor or table of an installed library."""
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
    named = [function.__globals__.get(name) for name in code.co_names]
    return [*made_with, code, [each for each in named if isinstance(each, PLAIN)]]


def _of_class(kind: type) -> list[Any]:
    """Bases of a class; where there is no file, as in a notebook, its members, too."""
    if _is_installed(kind):
        return []
    members = {} if _home(kind) else {n: v for n, v in vars(kind).items() if n not in PLACES}
    return [*kind.__bases__, members]


def _attributes(value: object) -> dict[str, Any]:
    """Fields by which a dataclass is compared; of other objects all that is not their use."""
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if field.compare]
        return {name: getattr(value, name, None) for name in fields}
    own = getattr(value, "__dict__", {})
    return {name: part for name, part in own.items() if not _is_use(type(value), name)}


def _is_use(kind: type, name: str) -> bool:
    """Whether an attribute is made while an object is used: numbers drawn, results kept."""
    member = inspect.getattr_static(kind, name, None)
    return isinstance(member, functools.cached_property) or name.startswith("_np_random")


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
