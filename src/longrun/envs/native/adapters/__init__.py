"""Environments of other JAX libraries, each behind `longrun.envs.native.Environment`."""
