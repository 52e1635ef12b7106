"""States of environments as bytes.

The state of an environment is what its `get_state()` gives, for `set_state(state)`. One without
these methods is saved by those of its attributes that have changed since it was made, so that its
parameters are its own; all must be data, and none may have two names. Data are None, booleans,
numbers, strings, bytes, NumPy arrays and generators, and lists, tuples and dicts (with strings as
keys) of these. The generator `np_random` and the steps that a TimeLimit has counted are saved, too.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Generator, Philox

TRANSPARENT = (TimeLimit, OrderEnforcing, PassiveEnvChecker)
"""Wrappers whose state is known: TimeLimit's is a number, the others have none once reset."""
GENERATORS = {kind.__name__: kind for kind in (PCG64, PCG64DXSM, MT19937, Philox, SFC64)}
MOST_STATE_BYTES = 2**18
"""Most bytes of a state; a larger one is not saved. Only what is used takes memory."""
KIND = "longrun kind"
"""The key that tells encoded arrays, bytes, tuples and generators from a user's dicts."""


def encode(value: Any) -> bytes:
    """JSON of a state. Raises TypeError for anything that is not plain data."""
    return json.dumps(_plain(value)).encode()


def decode(content: bytes) -> Any:
    """The state that `encode` was given."""
    return json.loads(content, object_hook=_restored)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.hasobject or value.dtype.names:
            raise TypeError("an array of objects or of records is not plain data")
        data = base64.b64encode(np.asarray(value, order="C").tobytes()).decode()
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {KIND: kind, "dtype": value.dtype.str, "shape": list(value.shape), "data": data}
    if isinstance(value, Generator):
        return {KIND: "generator", "state": _plain(value.bit_generator.state)}
    if isinstance(value, bytes):
        return {KIND: "bytes", "data": base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return {KIND: "tuple", "items": [_plain(item) for item in value]}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        if odd := [key for key in value if not isinstance(key, str) or key == KIND]:
            raise TypeError(f"the key {odd[0]!r} of a dict must be another string")
        return {key: _plain(item) for key, item in value.items()}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"a {type(value).__name__} is not plain data")


def _restored(value: dict[str, Any]) -> Any:
    """What a dict of JSON stands for, after all that is inside."""
    kind = value.get(KIND)
    if kind is None:
        return value
    if kind == "tuple":
        return tuple(value["items"])
    if kind == "generator":
        bits = GENERATORS[value["state"]["bit_generator"]]()
        bits.state = value["state"]
        return Generator(bits)
    content = base64.b64decode(value["data"])
    if kind == "bytes":
        return content
    array = np.frombuffer(content, value["dtype"]).reshape(value["shape"]).copy()
    return array if kind == "array" else array[()]


class SavedState:
    """The state of a Gymnasium environment with its wrappers."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._limits: list[TimeLimit[Any, Any]] = []
        while type(env) in TRANSPARENT:
            if isinstance(env, TimeLimit):
                self._limits.append(env)
            env = env.env  # type: ignore[attr-defined]
        self._inner = env
        names = ("get_state", "set_state")
        self._has_methods = all(callable(getattr(env, name, None)) for name in names)
        self._made = None if self._has_methods else self._attributes()
        """the attributes of the new environment; None where they are not its state"""
        self.is_possible = self._has_methods or self._made is not None
        """False once its state has turned out to be no data, or too large"""

    def save(self) -> bytes:
        """The state; b"" if it cannot be saved."""
        if not self.is_possible:
            return b""
        inner: Any = self._inner
        try:
            content = {
                "state": inner.get_state() if self._has_methods else self._changed(),
                "elapsed": [limit._elapsed_steps for limit in self._limits],
                "np_random": inner.unwrapped.np_random.bit_generator.state,
            }
            found = encode(content)
        except (TypeError, ValueError, RecursionError):
            found = b""
        self.is_possible = 0 < len(found) <= MOST_STATE_BYTES
        return found if self.is_possible else b""

    def load(self, state: bytes) -> None:
        """Set a state that `save` returned; the environment has been reset before."""
        content, inner = decode(state), self._inner
        inner.unwrapped.np_random.bit_generator.state = content["np_random"]
        if self._has_methods:
            inner.set_state(content["state"])  # type: ignore[attr-defined]
        else:
            for name in (self._attributes() or {}).keys() - (self._made or {}).keys():
                delattr(inner, name)
            made = {name: decode(value) for name, value in (self._made or {}).items()}
            vars(inner).update(made | content["state"])
        for limit, elapsed in zip(self._limits, content["elapsed"], strict=True):
            limit._elapsed_steps = elapsed

    def _changed(self) -> dict[str, Any]:
        """Attributes that are not as they were made: those that are parameters stay out."""
        found = self._attributes()
        if found is None or self._made is None:
            raise TypeError("an attribute is no data")
        return {n: vars(self._inner)[n] for n, x in found.items() if self._made.get(n) != x}

    def _attributes(self) -> dict[str, bytes] | None:
        """All attributes, encoded; None if one is no data or has two names, or all are too much."""
        seen: set[int] = {id(vars(self._inner).get("_np_random"))}
        if any(vars(kind).get("__slots__") for kind in type(self._inner).__mro__):
            return None
        found = {}
        for name, value in vars(self._inner).items():
            if name == "_np_random" or isinstance(value, EnvSpec) or _is_unused_space(value):
                continue
            try:
                _require_own(value, seen)
                found[name] = encode(value)
            except (TypeError, ValueError, RecursionError):
                return None
        # They are encoded after every rollout, those that never change, too.
        return found if sum(map(len, found.values())) <= MOST_STATE_BYTES else None


def _is_unused_space(value: Any) -> bool:
    """Whether this is a space whose generator has drawn nothing."""
    return isinstance(value, gymnasium.Space) and value._np_random is None


def _require_own(value: Any, seen: set[int]) -> None:
    """Raise TypeError for an object that can change under another name, too, as a view does."""
    owner = value
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    if isinstance(value, np.ndarray | list | dict | Generator):
        if id(owner) in seen:
            raise TypeError("an object has two names")
        seen.add(id(owner))
    parts = value.values() if isinstance(value, dict) else value
    for part in parts if isinstance(value, dict | list | tuple) else ():
        _require_own(part, seen)
