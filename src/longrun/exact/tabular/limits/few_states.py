"""Two policies around a limit, made to differ in one state (Beutler and Ross 1985)."""

from __future__ import annotations

import numpy as np

from longrun.exact.tabular.limits.mixtures import Column
from longrun.exact.tabular.limits.search import Search


def differ_in_one_state(search: Search, first: Column, second: Column) -> tuple[Column, Column]:
    """Two policies between the given ones, one on each side of the limit, if bisection finds them.

    The states where the policies differ are moved from the first's action to the second's one by
    one. All policies on the way are optimal for the same price; somewhere the cost passes the
    limit. The given ones are returned where a policy on the way has several recurrent classes, or
    is worse: in states that neither visits, their actions need not be optimal.
    """
    places = np.flatnonzero(first.policy != second.policy)
    if (first.excess[0] > 0) == (second.excess[0] > 0):
        return first, second
    low, high = (0, first), (len(places), second)
    while high[0] - low[0] > 1:
        middle = (low[0] + high[0]) // 2
        policy = first.policy.copy()
        policy[places[:middle]] = second.policy[places[:middle]]
        column = search.column(policy)
        if column is None or not _as_good(search, column):
            return first, second
        if (column.excess[0] > 0) == (low[1].excess[0] > 0):
            low = (middle, column)
        else:
            high = (middle, column)
    return low[1], high[1]


def _as_good(search: Search, column: Column) -> bool:
    lost = search.bound - column.worth(search.prices)
    return bool(lost <= 0.5 * search.tolerance * search.scale)
