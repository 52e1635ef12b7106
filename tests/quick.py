"""Compiler options of single programs in tests that compile dozens of them."""

from __future__ import annotations

import os

QUICK: dict[str, int] = (
    {"xla_backend_optimization_level": 0}
    if os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") == "1"
    else {}
)
"""Without XLA's optimisations, which take longer than compilation; as users have it in
`make test-shipped`."""
