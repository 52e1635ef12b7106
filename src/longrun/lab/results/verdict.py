"""Which of the compared settings is best, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from longrun.base.errors import listed
from longrun.lab.results.comparison import Comparison, Row
from longrun.lab.results.labels import shortened
from longrun.lab.results.metric_names import metric_name
from longrun.lab.results.scores import CostRates, feasible_seeds
from longrun.lab.results.statistics import improvement
from longrun.lab.results.tables import estimate_text
from longrun.learning.envs.spaces import Array


def verdict(found: Comparison) -> list[str]:
    """Which setting is best, in a line for all tasks together or in one for each of them."""
    short, _ = shortened(row.label for row in found.rows)
    metric = found.rows[0].metric
    over_all = any(not row.env and row.metric == metric for row in found.rows)
    lines = []
    for env in [""] if over_all else found.tasks:
        rows = _rows(found, env)
        if len(rows) > 1:
            lines.append(_best_of(rows, ranked(found, env), found, short))
    return lines


def ranked(found: Comparison, env: str) -> list[str]:
    """Labels of settings by their interquartile means in the first metric, the best one first.

    Where costs have limits, only settings of which most seeds keep them.
    """
    rows = _rows(found, env)
    shares = {label: _kept_share(row, found.costs) for label, row in rows.items()}
    kept = [label for label in rows if shares[label] == max(shares.values())]
    return sorted(kept, key=lambda label: -rows[label].aggregates["iqm"].value)


def _rows(found: Comparison, env: str) -> dict[str, Row]:
    """Rows with a score in the first metric, by label."""
    metric = found.rows[0].metric
    return {
        row.label: row
        for row in found.rows
        if (row.env, row.metric) == (env, metric) and row.aggregates
    }


def _best_of(
    rows: Mapping[str, Row], order: Sequence[str], found: Comparison, short: Mapping[str, str]
) -> str:
    """The first setting of an order, and which others it does not clearly beat.

    It clearly beats those for which the interval of P(better) is above 1/2.
    """
    best, *others = order
    scores = {label: _scores(rows[label], found) for label in order}
    wins = {label: improvement(scores[best], scores[label]) for label in others}
    close = [label for label, better in wins.items() if not better.low > 0.5]
    env = rows[best].env
    metric = metric_name(rows[best].metric) + " (scaled)" * (not env)
    among, place = f"{len(rows)} settings", f"on {env or 'all tasks'}"
    figure = estimate_text(rows[best].aggregates["iqm"])
    tasks = [env] if env else found.tasks
    fewest = min(row.seeds for row in found.rows if row.label in order and row.env in tasks)
    seeds = f"{fewest} seed{'s' * (fewest != 1)}"
    if len(order) < len(rows):
        seeds += "; others keep their limits less"
    if any(np.isnan(better.low) for better in wins.values()):
        few = f"Too few seeds ({fewest}) for a verdict between {among} {place}"
        return f"{few}; {short[best]} has the highest {metric}, {figure}"
    if close:
        alike = listed(short[label] for label in (best, *close))
        who = among if len(close) + 1 == len(rows) else alike
        return f"No clear difference between {who} {place}, {seeds}"
    return f"{short[best]} is best of {among} {place}: {metric} {figure}, {seeds}"


def _kept_share(row: Row, costs: Sequence[CostRates]) -> float:
    """The share of a setting's seeds that keep all limits; over all tasks their mean."""
    own = [
        feasible.share
        for (env, label), feasible in feasible_seeds(costs).items()
        if label == row.label and row.env in ("", env)
    ]
    return sum(own) / len(own) if own else 1.0


def _scores(row: Row, found: Comparison) -> Array:
    """[seeds, tasks]"""
    return np.array(row.scores)[:, None] if row.env else found.scores[row.metric][row.label]
