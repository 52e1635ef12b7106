"""Exact average-reward decision processes: the theory of trust regions, and scalable solvers."""
