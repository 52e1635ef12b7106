"""Environments written in JAX, which run inside the compiled program."""

from longrun.learning.envs.native.protocol import Environment, Step

__all__ = ["Environment", "Step"]
