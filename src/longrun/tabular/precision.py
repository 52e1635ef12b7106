"""What rounding can do to an answer, and what is said of an answer that it has spoiled.

Bounds on rounding come from here and hold on every machine: they count operations and do not ask in
which order, how many at a time or with which fused instructions a CPU does them.
"""

from __future__ import annotations

import warnings

import numpy as np

from longrun.errors import NoConvergence

EPS = float(np.finfo(float).eps)

LOOSE = 1e-5
"""Relative error above which an answer comes with a warning: a tenth of the last digit that tables
and maps show."""
USELESS = 0.1
"""Relative error above which there is no answer: not even its first digit would be right."""


class PrecisionWarning(UserWarning):
    """An answer is less precise than asked for; what it came with says how precise it is."""


def rounding(terms: int, size: float) -> float:
    """A bound on what rounding does to a sum of `terms` products of absolute sum `size`.

    A sum of n products is off by less than n u / (1 - n u) times the sum of their absolute values,
    in any order, fused or not (Higham 2002, section 3.1), with u = EPS / 2. That it is EPS here
    leaves as much again for rows of probabilities that sum to 1 up to rounding only.
    """
    return EPS * terms * size


def check_precision(what: str, error: float, scale: float = 1.0) -> None:
    """Say that `what` may be off by `error`: nothing up to LOOSE, a warning, or a RuntimeError."""
    if error <= LOOSE * scale:
        return
    told = f"{what} may be off by {error:.2g}, since the chain is slow or nearly reducible"
    if not error <= USELESS * scale:
        raise NoConvergence(f"{told}; speed up its rarest transitions, or leave them out")
    warnings.warn(told, PrecisionWarning, stacklevel=3)
