"""States of environments that can save them, as bytes.

An environment saves its state if it has `get_state()` and `set_state(state)`. A state consists of
None, booleans, numbers, strings, bytes, NumPy arrays, and lists, tuples and dicts (with strings as
keys) of these. The generator `np_random` and the steps that a TimeLimit has counted are saved
beside it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

TRANSPARENT = (TimeLimit, OrderEnforcing, PassiveEnvChecker)
"""Wrappers whose state is known: TimeLimit's is a number, the others have none once reset."""
KIND = "longrun kind"
"""The key that tells encoded arrays, bytes and tuples from a user's dicts."""


def encode(value: Any) -> bytes:
    """JSON of a state. Raises TypeError for anything that is not plain data."""
    return json.dumps(_plain(value)).encode()


def decode(content: bytes) -> Any:
    """The state that `encode` was given."""
    return _restored(json.loads(content))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.hasobject:
            raise TypeError("an array of objects is not plain data")
        data = base64.b64encode(np.asarray(value, order="C").tobytes()).decode()
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {KIND: kind, "dtype": value.dtype.str, "shape": list(value.shape), "data": data}
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


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(KIND)
    if kind is None:
        return {key: _restored(item) for key, item in value.items()}
    if kind == "tuple":
        return tuple(_restored(item) for item in value["items"])
    content = base64.b64decode(value["data"])
    if kind == "bytes":
        return content
    array = np.frombuffer(content, value["dtype"]).reshape(value["shape"]).copy()
    return array if kind == "array" else array[()]


class SavedState:
    """The state of a Gymnasium environment with its wrappers."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        *wrappers, self._inner = _layers(env)
        self._limits = [wrapper for wrapper in wrappers if isinstance(wrapper, TimeLimit)]
        methods = (getattr(self._inner, name, None) for name in ("get_state", "set_state"))
        self.is_possible = all(map(callable, methods))

    def save(self) -> bytes:
        """The state; b"" if the environment has none, or one that is not plain data."""
        if not self.is_possible:
            return b""
        inner: Any = self._inner
        content = {
            "state": inner.get_state(),
            "elapsed": [limit._elapsed_steps for limit in self._limits],
            "np_random": inner.unwrapped.np_random.bit_generator.state,
        }
        try:
            return encode(content)
        except (TypeError, ValueError, RecursionError):
            self.is_possible = False
            return b""

    def load(self, state: bytes) -> None:
        """Set a state that `save` returned; the environment has been reset before."""
        if not self.is_possible:
            raise TypeError("the environment has no get_state and set_state")
        content, inner = decode(state), self._inner
        inner.unwrapped.np_random.bit_generator.state = content["np_random"]
        inner.set_state(content["state"])  # type: ignore[attr-defined]
        for limit, elapsed in zip(self._limits, content["elapsed"], strict=True):
            limit._elapsed_steps = elapsed


def _layers(env: gymnasium.Env[Any, Any]) -> Iterator[gymnasium.Env[Any, Any]]:
    """The environment, and what is inside as long as the wrappers' states are known."""
    yield env
    while type(env) in TRANSPARENT:
        env = env.env  # type: ignore[attr-defined]
        yield env
