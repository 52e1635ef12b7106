"""Exact theory: finite models, queueing networks, policy maps."""
