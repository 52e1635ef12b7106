"""Queueing networks as environments in JAX."""
