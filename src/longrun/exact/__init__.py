"""Exact theory: finite models and queueing networks."""
