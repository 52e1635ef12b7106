"""What training, sweeps and plots print in the end: final scores, and costs beside their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longrun.lab.results.comparison_table import cost_table, unsettled_notes
from longrun.lab.results.labels import shortened
from longrun.lab.results.limits import cost_rates
from longrun.lab.results.metric_names import metric_name
from longrun.lab.results.read import Setting
from longrun.lab.results.statistics import (
    COVERED,
    FEWEST_SEEDS,
    FINAL_SHARE,
    final_evaluations,
    scores_of,
    unsettled_evaluations,
)
from longrun.lab.results.tables import TextTable, print_tables, with_interval

METRICS = ("average_reward", "episode_return")


def print_final(settings: Sequence[Setting]) -> None:
    """The final scores of all settings, then the costs of each environment that has some."""
    short, shared = shortened(setting.label for setting in settings)
    costs = cost_rates([setting for setting in settings if len(setting.steps)])
    environments = dict.fromkeys(each.env for each in costs)
    of_costs = [
        cost_table(env, [each for each in costs if each.env == env], short) for env in environments
    ]
    print_tables([_score_table(settings, short, shared), *of_costs])


def _score_table(settings: Sequence[Setting], short: Mapping[str, str], shared: str) -> TextTable:
    """Each setting's final score: mean over seeds with an interval, or with the seeds if few."""
    environments = list(dict.fromkeys(setting.env for setting in settings))
    rows = []
    for setting in sorted(settings, key=lambda s: environments.index(s.env)):
        evaluated = len(setting.steps) > 0
        rows.append(
            [
                *([setting.env] if len(environments) > 1 else []),
                short[setting.label],
                str(len(setting.seeds)),
                f"{setting.steps[-1]:,}" if evaluated else "-",
                *(with_interval(scores_of(setting, m)[0]) if evaluated else "-" for m in METRICS),
            ]
        )
    place = environments[0] if len(environments) == 1 else f"{len(environments)} environments"
    header = ["environment"] if len(environments) > 1 else []
    header += ["setting", "seeds", "steps", *map(metric_name, METRICS)]
    title = f"{place}: final score{_seeds_text([len(setting.seeds) for setting in settings])}"
    notes = [_final_score_text(settings), *settling_notes(settings, short)]
    if any(len(setting.seeds) >= FEWEST_SEEDS for setting in settings):
        notes.append(f"intervals of {FEWEST_SEEDS} seeds cover {COVERED['mean']} in simulations")
    notes += [f"all with {shared}"] if shared else []
    return TextTable(title, header, rows, "; ".join(notes))


def settling_notes(settings: Sequence[Setting], short: Mapping[str, str]) -> list[str]:
    """A note if evaluations in the final scores had not settled; it names the settings."""
    several = len({setting.env for setting in settings}) > 1
    return unsettled_notes(
        (
            short[s.label] + (f" on {s.env}" if several else ""),
            unsettled_evaluations(s),
            final_evaluations(s) * len(s.seeds),
        )
        for s in settings
    )


def _seeds_text(counts: Sequence[int]) -> str:
    """What a score with several seeds is, and what stands behind it."""
    if max(counts, default=1) == 1:
        return " of the only seed"
    if max(counts) < FEWEST_SEEDS:
        return ", mean over seeds (scores of the seeds)"
    few = f" or (scores of the seeds), if fewer than {FEWEST_SEEDS}"
    return f", mean over seeds [nominal 95 % interval]{few if min(counts) < FEWEST_SEEDS else ''}"


def _final_score_text(settings: Sequence[Setting]) -> str:
    """What a final score is, and of how many evaluations."""
    counts = [final_evaluations(setting) for setting in settings if len(setting.steps)]
    fewest, most = min(counts, default=0), max(counts, default=0)
    if most == 1:
        return "final score: the last evaluation"
    number = f"{fewest} to {most} " if fewest < most else f"{most} " * (most > 0)
    share = f"{100 * FINAL_SHARE:.0f} %"
    return f"final score: mean of the {number}evaluations in the last {share} of training"
