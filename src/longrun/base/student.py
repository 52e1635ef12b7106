"""Student's law: intervals of means of few samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def student_reach(samples: NDArray[Any], confidence: float = 0.95) -> NDArray[Any]:
    """Half the width of Student's interval for the mean over the last axis: [..., n] -> [...]."""
    n = samples.shape[-1]
    error = samples.std(-1, ddof=1) / np.sqrt(n)
    reach: NDArray[Any] = student_quantile(n - 1, confidence) * error
    return reach


def student_quantile(freedom: float, confidence: float) -> float:
    """How many standard errors a two-sided interval of Student's law reaches."""
    from scipy.special import stdtrit  # a tenth of the start of every run, if it were above

    return float(stdtrit(freedom, (1 + confidence) / 2))
