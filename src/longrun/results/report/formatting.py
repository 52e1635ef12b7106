"""What the page says in words: names of settings, facts about the runs, the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from longrun.results.report.runs import Folder, Group

Row = Mapping[str, Any]
"""A setting of the page: env, name, seeds and `final`, figures with intervals."""
LISTED = 4
"""environments whose best setting the first lines name"""


def in_words(value: Any) -> str:
    """A value as labels have it."""
    return ",".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


def differing(groups: Sequence[Group]) -> list[str]:
    """Names of the choices that not all settings which have them share."""
    names = dict.fromkeys(name for group in groups for name in group.choices)
    return [
        name
        for name in names
        if len({in_words(g.choices[name]) for g in groups if name in g.choices}) > 1
    ]


def title(groups: Sequence[Group]) -> str:
    environments = list(dict.fromkeys(group.env for group in groups))
    algorithms = list(dict.fromkeys(group.choice.algorithm.upper() for group in groups))
    where = environments[0] if len(environments) == 1 else f"{len(environments)} environments"
    return f"{', '.join(algorithms)} on {where}" if groups else "Runs that have only begun"


def facts(folder: Folder) -> list[tuple[str, str]]:
    """Name and value of each, for the head of the page."""
    configs, groups = [run.config for run in folder.runs], folder.groups
    environments = sorted({config["env"] for config in configs})
    algorithms = sorted({config["algorithm"].upper() for config in configs})
    steps = sorted({config["steps"] for config in configs if "steps" in config})
    begun = sorted(str(config.get("created", ""))[:16].replace("T", " ") for config in configs)
    versions = sorted({str(config.get("versions", {}).get("longrun", "?")) for config in configs})
    found = [
        ("environment" + "s" * (len(environments) > 1), ", ".join(environments)),
        ("algorithm" + "s" * (len(algorithms) > 1), ", ".join(algorithms)),
        ("settings", str(len(groups))),
        ("seeds of each", _span([str(n) for n in sorted({len(g.replicas) for g in groups})])),
        ("steps of each seed", _span([f"{step:,}" for step in steps])),
        ("runs", str(len(configs)) if len(configs) > 1 else ""),
        ("begun", _span([each for each in begun if each])),
        ("longrun", ", ".join(versions)),
    ]
    return [(name, text) for name, text in found if text]


def _span(values: Sequence[str]) -> str:
    """The first and the last; once where they are the same."""
    return " to ".join(dict.fromkeys((*values[:1], *values[-1:])))


def result(rows: Sequence[Row]) -> str:
    """Who earns most, in one line."""
    by_env: dict[str, list[Row]] = {}
    for row in rows:
        if "average_reward" in row["final"]:
            by_env.setdefault(row["env"], []).append(row)
    ranked = {
        env: sorted(mine, key=lambda row: -float(row["final"]["average_reward"]["mean"]))
        for env, mine in by_env.items()
    }
    if not ranked:
        return "No policy was evaluated yet."
    if len(ranked) == 1:
        return _sentence(*next(iter(ranked.items())))
    firsts = [f"{env}: {mine[0]['name']}, {_figure(mine[0])}" for env, mine in ranked.items()]
    more = f"; and {len(ranked) - LISTED} more below" if len(ranked) > LISTED else ""
    return f"Highest average reward per step, {'; '.join(firsts[:LISTED])}{more}."


def _sentence(env: str, ranked: Sequence[Row]) -> str:
    """Rows of one environment, best first."""
    best = ranked[0]
    seeds = len(best["seeds"])
    over = f"{seeds} seed{'s' * (seeds != 1)}"
    if len(ranked) == 1:
        return f"{best['name']} earns {_figure(best)} per step on {env} ({over})."
    first = f"On {env}, {best['name']} earns most: {_figure(best)} per step ({over})"
    second = ranked[1]
    compared = f"{first}, ahead of {second['name']} with {_figure(second)}"
    if min(len(best["seeds"]), len(second["seeds"])) < 2:
        return f"{compared}, but single seeds cannot tell for sure."
    apart = best["final"]["average_reward"]["low"] > second["final"]["average_reward"]["high"]
    return (
        f"{compared}, {'and' if apart else 'but'} their 95 % intervals {'do not ' * apart}overlap."
    )


def _figure(row: Row) -> str:
    final = row["final"]["average_reward"]
    if len(row["seeds"]) < 2:
        return f"{final['mean']:.4g}"
    return f"{final['mean']:.4g} [{final['low']:.3g}, {final['high']:.3g}]"
