"""Bounds on rounding errors, and the warnings and errors for results that they affect.

The bounds hold on every machine: they count operations and do not depend on the order, the
vectorisation or the fused instructions with which a CPU does them.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from longrun.base.errors import NoConvergence

EPS = float(np.finfo(float).eps)

LOOSE = 1e-5
"""Relative error above which a result comes with a warning: a tenth of the last digit that tables
and maps show."""
USELESS = 0.1
"""Relative error above which there is no result: not even its first digit would be right."""


def longest_row(matrix: Any) -> int:
    """Number of terms of the longest sum in a product with a vector, for its rounding error."""
    return int(np.diff(matrix.indptr).max()) if sparse.issparse(matrix) else int(matrix.shape[1])


class PrecisionWarning(UserWarning):
    """A result is less precise than requested; the message contains its precision."""


def rounding(terms: int, size: float) -> float:
    """Bound on the rounding error of a sum of `terms` products with absolute sum `size`.

    A sum of n products is off by less than n u / (1 - n u) times the sum of their absolute values,
    in any order, fused or not (Higham 2002, section 3.1), with u = EPS / 2. Using EPS here allows
    the same again for rows of probabilities that sum to 1 only up to rounding.
    """
    return EPS * terms * size


def check_precision(what: str, error: float, scale: float = 1.0) -> None:
    """Do nothing if `error` is at most LOOSE; otherwise warn, or raise a RuntimeError."""
    if error <= LOOSE * scale:
        return
    told = f"{what} may be off by {error:.2g}, since the chain is slow or nearly reducible"
    if not error <= USELESS * scale:
        raise NoConvergence(f"{told}; speed up its rarest transitions, or leave them out")
    warnings.warn(told, PrecisionWarning, stacklevel=3)
