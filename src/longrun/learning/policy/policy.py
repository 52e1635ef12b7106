"""A learned policy with NumPy alone: for programs that use one and have neither JAX nor Gymnasium.

`agent.predict` is the same code, with the environment's own spaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from longrun.base.checks import whole_number
from longrun.base.errors import FolderError, InputError
from longrun.learning.envs.flat_spaces import (
    Array,
    Form,
    Spaces,
    action_maker,
    as_given,
    row_writer,
    width,
)
from longrun.learning.envs.numpy_policy import NumpyPolicy, draw_noise, weight_shapes
from longrun.learning.options.acting import MLP, Acting
from longrun.learning.runs.checkpoint_files import (
    CheckpointFiles,
    checked_tensor,
    damage_named,
    read_checkpoint,
    read_spaces,
)

VARIANCE_EPSILON = 1e-8
"""Added to a variance by which observations are standardised, as in learning."""


class Policy:
    """Actions for observations in the environment's own spaces. Made by `load_policy`."""

    def __init__(
        self,
        acting: Acting,
        spaces: Spaces,
        weights: Array,
        interface: Mapping[str, Form],
        rng: np.random.Generator,
        about: Mapping[str, str],
    ) -> None:
        """`interface`: the forms of the environment's own spaces. `about`: its name, and more."""
        self.acting, self.spaces, self.weights = acting, spaces, weights
        self.interface, self.about = interface, about
        self.numpy = NumpyPolicy(acting, spaces, weights)
        self._write = row_writer(interface["observation"])
        self._read = action_maker(interface["action"])
        self._rng = rng
        sizes = np.array(spaces.categories, int)
        self._mask_starts = np.cumsum(sizes) - sizes if spaces.masked else None

    def __repr__(self) -> str:
        return f"Policy({self.about['env']!r}, algorithm={self.about['algorithm']!r})"

    def predict(self, obs: Any, deterministic: bool = True) -> tuple[Any, None]:
        """The action for an observation; or one for each row of a batch, or of a list of dicts.

        It is what the environment was given in training: with `action_bounds="raw"` it may lie
        beyond the action space. The second item, None, is there for other libraries' sake.
        An observation that is not finite is refused, as in training, and so is a mask that forbids
        every choice.
        """
        batched = _are_several(obs, self.interface["observation"])
        rows = self._rows(obs, batched)
        noise = None if deterministic else draw_noise(self._rng, self.spaces, len(rows))
        actions = self.actions(rows, noise)
        if not batched:
            return actions[0], None
        shape = self.interface["action"].get("shape", ())
        return np.array(actions).reshape(len(rows), *shape), None

    def actions(self, rows: Array, noise: Array | None = None) -> list[Any]:
        """The environment's actions for flat observations [n, D] and noise [n, A], or the mode."""
        drawn = self.numpy.act(rows, noise)
        given = as_given(np, self.spaces, self.acting.action_bounds, drawn)
        return [self._read(action) for action in given]

    def _rows(self, obs: Any, batched: bool) -> Array:
        """Flat observations [n, D], all finite, whose masks allow a choice of each component."""
        rows = np.zeros((len(obs) if batched else 1, self.spaces.observation_size), np.float32)
        try:
            for row, one in zip(rows, obs if batched else [obs], strict=True):
                self._write(one, row)
        except InputError as error:
            if isinstance(obs, tuple) and obs and isinstance(obs[-1], dict):
                raise InputError(
                    "the observation is a tuple that ends with a dict; reset() returns (obs, info):"
                    f" write obs, info = env.reset() and pass obs ({error})"
                ) from None
            raise
        finite = np.isfinite(rows)
        if np.count_nonzero(finite) < rows.size:  # a third of the time of finite.all()
            row, component = np.argwhere(~finite)[0]
            raise InputError(
                f"component {component} of {_observation(row, batched)} is {rows[row, component]};"
                " a policy needs finite numbers of float32: replace the value, or take no action"
                " for this observation"
            )
        if self._mask_starts is not None:
            mask = rows[:, : self.spaces.mask_size]
            allowed = np.maximum.reduceat(mask, self._mask_starts, axis=1) > 0
            if np.count_nonzero(allowed) < allowed.size:
                row, component = np.argwhere(~allowed)[0]
                which = f" of component {component}" if allowed.shape[1] > 1 else ""
                raise InputError(
                    f"the action mask of {_observation(row, batched)} forbids every choice{which};"
                    " let each mask allow at least one choice of each component"
                )
        return rows

    def export(self, path: str | Path) -> None:
        """Write the deterministic policy as an ONNX file; needs the extra `onnx`.

        Standardisation, masks and bounds are inside. Inputs are `observation` [N, ...], with masks
        also `action_mask` [N, K]; the output is `action` [N, ...].
        """
        from longrun.learning.policy.onnx_export import export_onnx

        export_onnx(path, self)


def _are_several(obs: Any, form: Form) -> bool:
    """Whether these are several observations: in a list, or as rows of an array."""
    if form["kind"] in ("Dict", "Tuple"):
        kinds = (dict,) if isinstance(obs, tuple) else (dict, tuple)
        return isinstance(obs, list | tuple) and len(obs) > 0 and isinstance(obs[0], kinds)
    try:
        return np.ndim(obs) == len(form.get("shape", ())) + 1
    except ValueError:  # rows of different lengths
        return False


def _observation(row: int, batched: bool) -> str:
    return f"row {row} of the observations" if batched else "the observation"


def load_policy(path: str | Path, *, replica: int = 0, seed: int = 0) -> Policy:
    """The policy of a saved agent, or of one replica of a run folder, with NumPy alone.

    It acts as `agent.predict` does. `seed` is of the stochastic actions (`deterministic=False`).
    """
    files = read_checkpoint(Path(path))
    with damage_named(files.folder):
        configs = files.spec.configs
        if not 0 <= replica < len(configs):
            has = f"which has {len(configs)}"
            raise InputError(f"replica={replica} is not in '{files.folder}', {has}")
        if (network := configs[replica].policy_network) != MLP:
            raise InputError(
                f"'{files.folder}' has policy_network '{network}', a function in JAX;"
                " use APO.load(path, policy_network=(init, apply))"
            )
        acting, spaces = configs[replica].acting, read_spaces(files.header["spaces"])
        interface = read_interface(files, spaces)
        weights = saved_weights(files, replica, acting, spaces)
        rng = np.random.default_rng(whole_number("seed", seed))
        about = {"algorithm": files.spec.algorithm, "env": files.spec.env}
        return Policy(acting, spaces, weights, interface, rng, about)


def read_interface(files: CheckpointFiles, spaces: Spaces) -> Mapping[str, Form]:
    """The environment's own spaces. Raises FolderError if they do not fit."""
    interface: Mapping[str, Form] = files.header["interface"]
    action = interface["action"]
    sizes = (1,) if action["kind"] == "Discrete" else action["shape"]
    if (
        width(interface["observation"]) != spaces.observation_size
        or action["kind"] not in ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
        or int(np.prod(sizes)) != spaces.action_size
        or np.dtype(action["dtype"]).kind not in "biuf"
    ):
        raise FolderError(f"checkpoint '{files.folder}' is damaged: its spaces do not fit")
    return interface


def saved_weights(files: CheckpointFiles, replica: int, acting: Acting, spaces: Spaces) -> Array:
    """The flat vector that acting takes, in the order of `weight_shapes`."""
    shapes = weight_shapes(acting, spaces)
    count = len(acting.hidden_sizes) + 1
    layers = [f"params.policy.layers[{i}][{part}]" for i in range(count) for part in (0, 1)]
    names = ["obs_moments.mean", "obs_moments.variance", "params.policy.log_std", *layers]
    parts = [
        checked_tensor(files.tensors, f"{replica}.state.{name}", shape, np.float32)
        for name, shape in zip(names, shapes, strict=True)
    ]
    parts[1] = 1 / np.sqrt(parts[1] + np.float32(VARIANCE_EPSILON))
    return np.concatenate([part.reshape(-1) for part in parts])
