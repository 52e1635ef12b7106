"""What acting depends on: the options of the policy's network, and what surrounds it.

Configurations make it; worker processes, saved policies, ONNX files and compiled programs read it.
Worker processes import this module, and not that of the configurations, which is slow to import.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

ActionBounds = Literal["clip", "raw"]
MLP = "mlp"
"""The network that longrun makes itself, a multilayer perceptron."""


@dataclass(frozen=True)
class Acting:
    """Options with the names and meanings that they have in a configuration, and `bounded_mean`."""

    hidden_sizes: tuple[int, ...] = (64, 64)
    normalize_observations: bool = False
    action_bounds: ActionBounds = "clip"
    bounded_mean: bool = False
    """whether a Gaussian policy's mean is passed through tanh, scaled to the action bounds"""
    activation: str = "tanh"
    layer_norm: bool = False
    policy_network: str | tuple[Any, Any] = MLP

    @property
    def is_mlp(self) -> bool:
        """Whether the policy's network is longrun's own; others are functions in JAX."""
        return self.policy_network == MLP


ACTING = tuple(name for name in Acting.__dataclass_fields__ if name != "bounded_mean")
"""Names of the options."""
