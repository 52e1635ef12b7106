"""A comparison in words: its verdict and its table, which compare, plot and training print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from longrun.base.errors import listed
from longrun.lab.results.comparison import Comparison, Row, compare
from longrun.lab.results.labels import shortened
from longrun.lab.results.metric_names import metric_name
from longrun.lab.results.scores import (
    COST,
    FINAL_SHARE,
    CostRates,
    cost_rates,
    feasible_seeds,
    rates_of,
    scores_of,
)
from longrun.lab.results.settings import Setting
from longrun.lab.results.statistics import (
    COVERED,
    FEWEST_SEEDS,
    ScoreEstimate,
    improvement,
    mean_interval,
)
from longrun.lab.results.tables import TextTable, estimate_text, number_text, print_table

COSTS_NOTE = (
    "Costs: final, mean over seeds. A seed is within its limits unless the 95 % interval of a cost"
    " is all above its limit."
)
TRAINED = ("average_reward", "episode_return")
"""Metrics of the table after training."""


def print_final(settings: Sequence[Setting]) -> None:
    """The final scores of what was trained: of one seed in words, else as a table."""
    if sum(len(setting.seeds) for setting in settings) == 1:
        print(_of_one_seed(settings[0]))
    elif settings:
        print_comparison(compare(settings, TRAINED))


def _of_one_seed(setting: Setting) -> str:
    """What was trained, its final scores, and costs beside their limits."""
    [seed] = setting.seeds
    rates, lows = rates_of(setting, TRAINED[0])
    reach = abs(float(rates[0] - lows[0]))
    figures = [f"average reward {number_text(rates[0], 4)} per step"]
    if np.isfinite(reach):
        ends = (number_text(rates[0] + side * reach, 3) for side in (-1, 1))
        figures[0] += f" [{', '.join(ends)}]"
    returns = scores_of(setting, TRAINED[1])[0][0]
    if np.isfinite(returns):
        figures.append(f"episode return {number_text(returns, 4)}")
    for cost in cost_rates([setting]):
        kept = "kept" if cost.kept[0] else "not kept"
        limit = "" if cost.limit is None else f" (limit {cost.limit:g} {kept})"
        figures.append(f"{cost.cost} {number_text(cost.rates[0], 4)} per step{limit}")
    first = f"{setting.label} on {setting.env}, seed {seed}, {setting.steps[-1]:,} steps"
    short = {setting.label: setting.label}
    notes = unsettled_notes(compare([setting], TRAINED[0]).rows, short)
    return "\n".join([first, "  ".join(figures), *notes])


def print_comparison(found: Comparison) -> TextTable:
    """Print the verdict and the table, which is returned."""
    for line in verdict(found):
        print(line)
    table = comparison_table(found)
    print_table(table)
    return table


def verdict(found: Comparison) -> list[str]:
    """Which setting is best, in a line for all tasks together or in one for each of them."""
    envs = [""] if found.scored("") else found.tasks
    return [_best_of(found, env) for env in envs if len(found.scored(env)) > 1]


def ranked(found: Comparison, env: str) -> list[str]:
    """Labels of settings by their interquartile means in the first metric, the best one first.

    Where costs have limits, only settings of which most seeds keep them.
    """
    rows = found.scored(env)
    shares = {label: _kept_share(row, found) for label, row in rows.items()}
    kept = [label for label in rows if shares[label] == max(shares.values())]
    return sorted(kept, key=lambda label: -rows[label].aggregates["iqm"].value)


def _kept_share(row: Row, found: Comparison) -> float:
    """The share of a setting's seeds that keep all limits; over all tasks their mean."""
    seeds = feasible_seeds(found.costs).items()
    own = [np.mean(k) for (env, label), k in seeds if label == row.label and row.env in ("", env)]
    return float(np.mean(own)) if own else 1.0


def _best_of(found: Comparison, env: str) -> str:
    """The best setting, and which others it does not clearly beat.

    It clearly beats those for which the interval of P(better) is above 1/2.
    """
    rows, (best, *others) = found.scored(env), ranked(found, env)
    wins = {
        label: improvement(found.matrix(rows[best]), found.matrix(rows[label])) for label in others
    }
    close = [label for label, better in wins.items() if not better.low > 0.5]
    short, _ = shortened(row.label for row in found.rows)
    metric = metric_name(rows[best].metric) + " (scaled)" * (not env)
    among, place = f"{len(rows)} settings", f"on {env or 'all tasks'}"
    figure = estimate_text(rows[best].aggregates["iqm"])
    compared = [row for row in found.rows if row.label in (best, *others)]
    fewest = min(row.seeds for row in compared if row.env and env in ("", row.env))
    seeds = f"{fewest} seed{'s' * (fewest != 1)}"
    if 1 + len(others) < len(rows):
        seeds += "; others keep their limits less"
    if any(np.isnan(better.low) for better in wins.values()):
        few = f"Too few seeds ({fewest}) for a verdict between {among} {place}"
        return f"{few}; {short[best]} has the highest {metric}, {figure}"
    if close:
        alike = listed(short[label] for label in (best, *close))
        who = among if len(close) + 1 == len(rows) else alike
        return f"No clear difference between {who} {place}, {seeds}"
    return f"{short[best]} is best of {among} {place}: {metric} {figure}, {seeds}"


def comparison_table(found: Comparison) -> TextTable:
    """Interquartile means in all metrics, P(better) in the first, and costs with their limits."""
    short, shared = shortened(row.label for row in found.rows)
    scored = dict.fromkeys(row.metric for row in found.rows if row.aggregates)
    metrics = list(scored) or [found.rows[0].metric]
    lines = [row for row in found.rows if row.metric == metrics[0]]
    cells = {(row.env, row.label, row.metric): row for row in found.rows}
    several = len(found.tasks) > 1
    columns = {
        "environment": [(row.env or "all tasks") * several for row in lines],
        "setting": [short[row.label] for row in lines],
        "seeds": [f"{row.seeds}" if row.env else "" for row in lines],
        "steps": [f"{row.steps:,}" if row.env else "" for row in lines],
    }
    for metric in metrics:
        own = [cells.get((row.env, row.label, metric)) for row in lines]
        texts = [estimate_text(r.aggregates.get("iqm"), r.scores) if r else "-" for r in own]
        columns[metric_name(metric)] = texts
    if any(row.improvement for row in lines):
        columns["P(better)"] = [
            "baseline"
            if row.label == found.baselines.get(row.env)
            else estimate_text(row.improvement)
            for row in lines
        ]
    columns |= _cost_columns(found.costs, [(row.env, row.label) for row in lines])
    place = f"{len(found.tasks)} environments" if several else found.tasks[0]
    shown = [row.aggregates["iqm"].low for row in found.rows if row.aggregates]
    interval = "" if np.isnan(shown).all() else " [nominal 95 % interval]"
    single = all(row.seeds == 1 for row in lines if row.env)
    what = "score of the only seed" if single else f"interquartile mean over seeds{interval}"
    notes = [*_evaluation_notes(lines, short), *_interval_notes(lines, short, found)]
    notes += _task_notes(metrics, short, found) if several else []
    notes += [COSTS_NOTE] * bool(found.costs) + [f"All with {shared}."] * bool(shared)
    return TextTable(f"{place}: {what}", columns, notes)


def _cost_columns(
    costs: Sequence[CostRates], keys: Sequence[tuple[str, str]]
) -> dict[str, list[str]]:
    """The final rate of each cost beside its limit, and how many seeds keep all limits."""
    of = {(each.key, each.cost): each for each in costs}
    kept = feasible_seeds(costs)
    columns = {}
    for name in dict.fromkeys(each.cost for each in costs):
        own = [of.get((key, name)) for key in keys]
        columns[metric_name(COST + name)] = [_mean_text(each) if each else "-" for each in own]
        limits = [each.limit if each else None for each in own]
        columns[f"limit of {name}"] = ["" if x is None else f"{x:g}" for x in limits]
    texts = [f"{sum(kept[key])} of {len(kept[key])}" if key in kept else "" for key in keys]
    return {**columns, "seeds within limits": texts} if costs else {}


def _mean_text(cost: CostRates) -> str:
    mean, low, high = (float(x) for x in mean_interval(np.array(cost.rates)))
    return estimate_text(ScoreEstimate(mean, low, high), cost.rates)


def _evaluation_notes(rows: Sequence[Row], short: Mapping[str, str]) -> list[str]:
    """What a final score is, of how many evaluations, and how many of these had not settled."""
    final = [row for row in rows if row.evaluations]
    if not final:
        return []
    counts = [row.evaluations or 0 for row in final]
    number = f"{max(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    share = f"{100 * FINAL_SHARE:.0f} %"
    text = f"Final score: mean of the {number} evaluations in the last {share} of training"
    if min(counts) == 1:
        often = min(row.steps or 0 for row in final if row.evaluations == 1) // 20
        text = "Final score: the last evaluation" if max(counts) == 1 else text
        text += f"; --eval-every {often} averages several"
    return [f"{text}.", *unsettled_notes(final, short)]


def unsettled_notes(rows: Sequence[Row], short: Mapping[str, str]) -> list[str]:
    """A sentence if evaluations in the final scores had not settled; it names the settings."""
    judged = [row for row in rows if row.unsettled is not None]
    several = len({row.env for row in judged}) > 1
    whose = ", ".join(
        f"{short[row.label]}{f' on {row.env}' if several else ''}: {row.unsettled}"
        for row in judged
        if row.unsettled
    )
    count = sum(row.unsettled or 0 for row in judged)
    total = sum(row.seeds * (row.evaluations or 0) for row in judged)
    return [
        f"{count} of {total} evaluations in the final scores had not settled ({whose});"
        " --eval-steps N gives longer ones."
    ] * bool(count)


def _interval_notes(rows: Sequence[Row], short: Mapping[str, str], found: Comparison) -> list[str]:
    """What P(better) is, what intervals cover, and where there are none."""
    notes = []
    compared = [row for row in rows if row.improvement]
    if compared:
        whose = {short[found.baselines[row.env]] for row in compared}
        baseline = whose.pop() if len(whose) == 1 else "the environment's baseline"
        more = metric_name(rows[0].metric)
        notes.append(f"P(better): probability that a seed has more {more} than one of {baseline}.")
    if any(np.isfinite(row.aggregates["iqm"].low) for row in rows if row.aggregates):
        of_better = f", those of P(better) {COVERED['improvement']}" if compared else ""
        notes.append(
            f"Intervals of {FEWEST_SEEDS} seeds cover {COVERED['iqm']} in simulations{of_better}."
        )
    if any(1 < row.seeds < FEWEST_SEEDS for row in rows if row.env):
        notes.append(f"Fewer than {FEWEST_SEEDS} seeds have no interval; they are in parentheses.")
    return notes


def _task_notes(metrics: Sequence[str], short: Mapping[str, str], found: Comparison) -> list[str]:
    """How tasks are put together, and what is left out since seeds lack a score."""
    notes = []
    if any(not row.env for row in found.rows):
        count = len(found.tasks_of(metrics[0]))
        notes.append(
            f"All tasks: scores on each of {count} tasks, from 0 (worst seed) to 1 (best seed)."
        )
    if found.partial:
        notes.append(f"Not on all tasks: {', '.join(short[label] for label in found.partial)}.")
    for metric in metrics:
        without = [task for task in found.tasks if task not in found.tasks_of(metric)]
        if without:
            notes.append(f"{metric_name(metric)} without {listed(without)}: seeds lack a score.")
    return notes
