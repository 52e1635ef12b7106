"""A policy as an ONNX file: standardisation, masks and bounds are inside it.

Inputs, N rows each: `observation` in the shape of a Box observation, or as flat rows otherwise (in
the order of `gymnasium.spaces.flatten`); with masks also `action_mask`, above 0 where a choice is
allowed. Output: `action`, the deterministic one, in the environment's own shape and type.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longrun import __version__
from longrun.base.errors import InputError, LongrunError
from longrun.base.files import write_bytes
from longrun.learning.envs.flat_spaces import Array, Form, Spaces, carries_mask, part_of
from longrun.learning.envs.numpy_policy import (
    FORBIDDEN,
    LAYER_NORM_EPSILON,
    OBSERVATION_LIMIT,
    split_weights,
    weight_shapes,
)

if TYPE_CHECKING:
    from longrun.learning.policy.policy import Policy

OPSET = 17
IR_VERSION = 8
"""Old enough for runtimes of 2022 and later."""
CHECKED_ROWS = 64
TOLERANCE = 1e-4
"""Largest difference of an action, in units of its scale: float32 with sums in another order."""


def export_onnx(path: str | Path, policy: Policy) -> None:
    """Write the file, after comparing it with the policy on random observations."""
    if not policy.acting.is_mlp:
        raise InputError("policy_network is a function in JAX, which ONNX files cannot hold")
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise InputError("an ONNX file needs packages; pip install onnx onnxruntime") from None
    model = _Graph(policy).model(onnx, policy.about)
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    _require_same(session, policy)
    write_bytes(Path(path), content)


class _Graph:
    """Nodes and constants, added one after another."""

    def __init__(self, policy: Policy) -> None:
        self._acting, self._spaces, self._interface = policy.acting, policy.spaces, policy.interface
        shapes = weight_shapes(policy.acting, policy.spaces)
        self._parts = split_weights(shapes, policy.weights)
        self._nodes: list[tuple[str, list[str], dict[str, Any]]] = []
        self._constants: list[Array] = []

    def model(self, onnx: Any, about: Mapping[str, str]) -> Any:
        """The whole model."""
        helper, spaces = onnx.helper, self._spaces
        form, action_form = observation_form(self._interface), self._interface["action"]
        kind = int(helper.np_dtype_to_tensor_dtype(np.dtype(action_form["dtype"])))
        is_box = form["kind"] == "Box"
        shapes = {"observation": list(form["shape"]) if is_box else [spaces.feature_size]}
        if spaces.masked:
            shapes = {"action_mask": [spaces.mask_size], **shapes}
        flat = self._constant([-1, spaces.feature_size], np.int64)
        outputs = self._outputs(self._add("Reshape", "observation", flat))
        action = self._action(outputs, kind)
        nodes = [
            helper.make_node(node, given, [f"t{i}"], **attributes)
            for i, (node, given, attributes) in enumerate(self._nodes)
        ]
        nodes.append(helper.make_node("Identity", [action], ["action"]))
        from_array = onnx.numpy_helper.from_array
        constants = [from_array(value, f"c{i}") for i, value in enumerate(self._constants)]
        shape = action_form.get("shape", [])
        results = [helper.make_tensor_value_info("action", kind, ["N", *shape])]
        inputs = [helper.make_tensor_value_info(n, 1, ["N", *each]) for n, each in shapes.items()]
        made = helper.make_model(
            helper.make_graph(nodes, "policy", inputs, results, constants),
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name="longrun",
            producer_version=__version__,
        )
        made.ir_version = IR_VERSION
        helper.set_model_props(made, dict(about))
        return made

    def _outputs(self, x: str) -> str:
        """Means or logits [N, K] for features."""
        mean, inverse_std, _, *layers = self._parts
        if self._acting.normalize_observations:
            x = self._add("Sub", x, self._constant(mean))
            x = self._add("Mul", x, self._constant(inverse_std))
            x = self._between(x, -OBSERVATION_LIMIT, OBSERVATION_LIMIT)
        last = len(layers) - 2
        for i in range(0, len(layers), 2):
            x = self._add("MatMul", x, self._constant(layers[i]))
            if i < last and self._acting.layer_norm:
                ones = self._constant(np.ones(layers[i].shape[1]))
                x = self._add("LayerNormalization", x, ones, axis=-1, epsilon=LAYER_NORM_EPSILON)
            x = self._add("Add", x, self._constant(layers[i + 1]))
            if i < last and self._acting.activation == "silu":
                x = self._add("Mul", x, self._add("Sigmoid", x))
            elif i < last:
                x = self._add({"tanh": "Tanh", "relu": "Relu"}[self._acting.activation], x)
        if self._spaces.masked:
            allowed = self._add("Greater", "action_mask", self._constant(0))
            return self._add("Where", allowed, x, self._constant(FORBIDDEN))
        if self._acting.bounded_mean and not self._spaces.categories:
            centre, reach = map(self._constant, self._spaces.centre_and_reach)
            return self._add("Add", centre, self._add("Mul", reach, self._add("Tanh", x)))
        return x

    def _action(self, outputs: str, kind: int) -> str:
        """The action in the environment's own shape and type, a number of ONNX."""
        form, spaces = self._interface["action"], self._spaces
        if spaces.categories:
            outputs = self._choices(outputs)
            start = self._constant(np.atleast_1d(form.get("start", 0)), np.int64)
            outputs = self._add("Add", outputs, start)
        elif self._acting.action_bounds == "clip":
            outputs = self._between(outputs, *spaces.limits)
        shape = self._constant([-1, *form.get("shape", [])], np.int64)
        return self._add("Cast", self._add("Reshape", outputs, shape), to=kind)

    def _choices(self, logits: str) -> str:
        """[N, K] -> [N, A]: the most likely choice of each component, the first of equal ones."""
        ends = np.cumsum(self._spaces.categories)
        axis = self._constant([1], np.int64)
        columns = []
        for end, size in zip(ends, self._spaces.categories, strict=True):
            bounds = [self._constant([b], np.int64) for b in (end - size, end)]
            part = self._add("Slice", logits, *bounds, axis)
            columns.append(self._add("ArgMax", part, axis=1, keepdims=1))
        return self._add("Concat", *columns, axis=1)

    def _between(self, x: str, low: Any, high: Any) -> str:
        return self._add("Min", self._add("Max", x, self._constant(low)), self._constant(high))

    def _add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node; the name of its result."""
        self._nodes.append((kind, list(inputs), attributes))
        return f"t{len(self._nodes) - 1}"

    def _constant(self, value: Any, dtype: Any = np.float32) -> str:
        self._constants.append(np.array(value, dtype))
        return f"c{len(self._constants) - 1}"


def observation_form(interface: Mapping[str, Form]) -> Form:
    """The form of the features, without a mask."""
    form = interface["observation"]
    return part_of(form, "observation") if carries_mask(form) else form


def _require_same(session: Any, policy: Policy) -> None:
    """Raise LongrunError if the file does not act as the policy on random rows [n, D]."""
    rng, acting, spaces = np.random.default_rng(0), policy.acting, policy.spaces
    mean, inverse_std, *_ = split_weights(weight_shapes(acting, spaces), policy.weights)
    rows = rng.standard_normal((CHECKED_ROWS, spaces.observation_size)).astype(np.float32)
    if acting.normalize_observations:
        rows[:, spaces.mask_size :] = rows[:, spaces.mask_size :] / inverse_std + mean
    if spaces.masked:
        rows[:, : spaces.mask_size] = rng.random((CHECKED_ROWS, spaces.mask_size)) < 0.7
        rows[:, np.cumsum(spaces.categories) - 1] = 1  # one choice of each component is left
    found = run_rows(session, spaces, policy.interface, rows)
    expected = np.array(policy.actions(rows)).reshape(found.shape)
    scale = 1.0 if spaces.categories else TOLERANCE * (1 + np.abs(expected))
    differs = np.abs(found.astype(np.float64) - expected) >= scale
    # Of two choices that are equally likely up to rounding, either is right.
    tied = _nearly_tied(policy.numpy.outputs(rows), spaces)
    if differs.reshape(CHECKED_ROWS, -1)[~tied].any():
        raise LongrunError("the ONNX file does not act as the policy; please report this")


def _nearly_tied(outputs: Array, spaces: Spaces) -> Array:
    """[n] whether the two best choices of a component differ by rounding only."""
    tied = np.zeros(len(outputs), bool)
    for part in np.split(outputs, np.cumsum(spaces.categories)[:-1], axis=1):
        if spaces.categories and part.shape[1] > 1:
            best = np.sort(part, axis=1)[:, -2:]
            tied |= best[:, 1] - best[:, 0] < TOLERANCE * (1 + np.abs(best[:, 1]))
    return tied


def run_rows(session: Any, spaces: Spaces, interface: Mapping[str, Form], rows: Array) -> Array:
    """Actions of a session of onnxruntime for rows [n, D]."""
    mask, features = rows[:, : spaces.mask_size], rows[:, spaces.mask_size :]
    form = observation_form(interface)
    if form["kind"] == "Box":
        features = features.reshape(len(rows), *form["shape"])
    given = {"observation": features} | ({"action_mask": mask} if spaces.masked else {})
    action: Array = session.run(None, given)[0]
    return action
