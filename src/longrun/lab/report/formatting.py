"""Text of the page: title, facts about the runs, the result in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from longrun.lab.report.runs import Folder, ReportedSetting
from longrun.lab.results.statistics import FEWEST_SEEDS
from longrun.learning.options.config_options import value_text

Row = Mapping[str, Any]
"""A setting of the page: env, name, seeds, and `final`, its final scores with intervals."""
LISTED = 4
"""environments whose best setting is named in the result"""


def differing(settings: Sequence[ReportedSetting]) -> list[str]:
    """Names of the choices that not all settings which have them share."""
    names = dict.fromkeys(name for each in settings for name in each.choices)
    return [
        name
        for name in names
        if len({value_text(s.choices[name]) for s in settings if name in s.choices}) > 1
    ]


def title(settings: Sequence[ReportedSetting]) -> str:
    environments = list(dict.fromkeys(each.env for each in settings))
    algorithms = list(dict.fromkeys(each.found.choice.algorithm.upper() for each in settings))
    where = environments[0] if len(environments) == 1 else f"{len(environments)} environments"
    return f"{', '.join(algorithms)} on {where}" if settings else "Runs that have just started"


def facts(folder: Folder) -> list[tuple[str, str]]:
    """Name and value of each fact, for the head of the page."""
    configs, settings = [run.config for run in folder.runs], folder.settings
    environments = sorted({config["env"] for config in configs})
    algorithms = sorted({config["algorithm"].upper() for config in configs})
    seeds = sorted({len(each.found.replicas) for each in settings})
    steps = sorted({config["steps"] for config in configs if "steps" in config})
    started = sorted(str(config.get("created", ""))[:16].replace("T", " ") for config in configs)
    versions = sorted({str(config.get("versions", {}).get("longrun", "?")) for config in configs})
    found = [
        ("environment" + "s" * (len(environments) > 1), ", ".join(environments)),
        ("algorithm" + "s" * (len(algorithms) > 1), ", ".join(algorithms)),
        ("settings", str(len(settings))),
        ("seeds of each", _span([str(n) for n in seeds])),
        ("steps asked for", _span([f"{step:,}" for step in steps])),
        ("runs", str(len(configs)) if len(configs) > 1 else ""),
        ("started", _span([each for each in started if each])),
        ("longrun", ", ".join(versions)),
    ]
    return [(name, text) for name, text in found if text]


def _span(values: Sequence[str]) -> str:
    """The first and the last value, or a single one if they are equal."""
    return " to ".join(dict.fromkeys((*values[:1], *values[-1:])))


def result(rows: Sequence[Row]) -> str:
    """The best setting of each environment, in one line."""
    by_env: dict[str, list[Row]] = {}
    for row in rows:
        if "average_reward" in row["final"]:
            by_env.setdefault(row["env"], []).append(row)
    ranked = {env: _ranked(mine) for env, mine in by_env.items()}
    if not ranked:
        return "No policy was evaluated yet."
    if len(ranked) == 1:
        return _sentence(*next(iter(ranked.items())))
    firsts = [f"{env}: {mine[0]['name']}, {_figure(mine[0])}" for env, mine in ranked.items()]
    more = f"; and {len(ranked) - LISTED} more below" if len(ranked) > LISTED else ""
    return f"Highest average reward on {'; on '.join(firsts[:LISTED])}{more}."


def feasible(row: Row) -> float:
    """The share of seeds that keep the limits on costs; 1 where there are none."""
    return 1.0 if row["kept"] is None else float(row["kept"] / len(row["seeds"]))


def _ranked(rows: Sequence[Row]) -> list[Row]:
    """Rows of which most seeds keep their limits, by average reward; the others are left out."""
    most = max(map(feasible, rows))
    kept = [row for row in rows if feasible(row) == most]
    return sorted(kept, key=lambda row: -float(row["final"]["average_reward"]["mean"]))


def _sentence(env: str, ranked: Sequence[Row]) -> str:
    """Rows of one environment, best first."""
    best = ranked[0]
    seeds = len(best["seeds"])
    over = f"{seeds} seed{'s' * (seeds != 1)}"
    if best["kept"] is not None:
        over += f", {best['kept']} of them within the limits on costs"
    if len(ranked) == 1:
        return f"On {env}, {best['name']} has an average reward of {_figure(best)} ({over})."
    among = "" if best["kept"] is None else " of those that keep their limits best"
    first = f"On {env}, {best['name']} has the highest average reward{among}: {_figure(best)}"
    first += f" ({over})"
    second = ranked[1]
    compared = f"{first}, ahead of {second['name']} with {_figure(second)}"
    if min(len(best["seeds"]), len(second["seeds"])) < FEWEST_SEEDS:
        return f"{compared}, but fewer than {FEWEST_SEEDS} seeds are too few to show a difference."
    apart = best["final"]["average_reward"]["low"] > second["final"]["average_reward"]["high"]
    return (
        f"{compared}, {'and' if apart else 'but'} their nominal 95 % intervals"
        f" {'do not ' * apart}overlap."
    )


def _figure(row: Row) -> str:
    final = row["final"]["average_reward"]
    if len(row["seeds"]) < FEWEST_SEEDS:
        return f"{final['mean']:.4g}"
    return f"{final['mean']:.4g} [{final['low']:.3g}, {final['high']:.3g}]"
