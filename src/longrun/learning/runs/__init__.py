"""The files of a run, without JAX."""
