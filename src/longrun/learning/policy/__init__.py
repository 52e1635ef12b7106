"""Learned policies without JAX."""
