"""Settings of all tests, made before JAX is imported."""

import os

# Hundreds of programs are compiled here for a few steps each: optimising them would take longer
# than running them. JAX_DISABLE_MOST_OPTIMIZATIONS=0 make test runs what users run.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
