"""Results as data frames of pandas, which is imported when one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from longrun.base.errors import InputError
from longrun.learning.options.config_options import value_text

if TYPE_CHECKING:
    from longrun.lab.results.comparison import Comparison
    from longrun.lab.results.limits import CostRates
    from longrun.lab.results.read import Setting


class Results(list["Setting"]):
    """Settings, in a list that can become a data frame."""

    def to_pandas(self) -> Any:
        """A row for each step of each seed of each setting.

        Columns: env, setting (its label), algorithm, preset, the options in which the settings
        differ, seed, step, and what was measured. Needs the extra `pandas`.
        """
        rows = [row for setting in self for row in _curve_rows(setting, _differing(self))]
        return _pandas().DataFrame(rows)


def _curve_rows(setting: Setting, options: Sequence[str]) -> list[dict[str, Any]]:
    about = {
        "env": setting.env,
        "setting": setting.label,
        "algorithm": setting.choice.algorithm,
        "preset": setting.choice.preset,
        **{name: _cell(setting.choice.options.get(name)) for name in options},
    }
    return [
        {**about, "seed": seed, "step": int(step)}
        | {name: float(values[i, k]) for name, values in setting.values.items()}
        for k, seed in enumerate(setting.seeds)
        for i, step in enumerate(setting.steps)
    ]


def _differing(settings: Sequence[Setting]) -> list[str]:
    """Options in which the settings differ; one that an algorithm lacks is None there."""
    names = dict.fromkeys(name for setting in settings for name in setting.choice.options)
    return [
        name
        for name in names
        if len({value_text(setting.choice.options.get(name)) for setting in settings}) > 1
    ]


def _cell(value: Any) -> Any:
    return value_text(value) if isinstance(value, list | tuple) else value


def comparison_frame(comparison: Comparison) -> Any:
    """What `Comparison.to_pandas` returns."""
    rows = []
    for row in comparison.rows:
        line: dict[str, Any] = {
            "env": row.env,
            "setting": row.label,
            "metric": row.metric,
            "seeds": row.seeds,
            "steps": row.steps,
            "evaluations": row.evaluations,
            "scores": row.scores,
            "baseline": comparison.baselines.get(row.env),
        }
        for name in ("iqm", "mean", "median"):
            line |= _estimate(name, row.aggregates.get(name))
        rows.append(line | _estimate("improvement", row.improvement))
    return _pandas().DataFrame([*rows, *map(_cost_row, comparison.costs)])


def _cost_row(cost: CostRates) -> dict[str, Any]:
    return {
        "env": cost.env,
        "setting": cost.label,
        "metric": f"cost_{cost.cost}",
        "seeds": len(cost.rates),
        "scores": cost.rates,
        "mean": sum(cost.rates) / len(cost.rates),
        "limit": cost.limit,
        "kept": sum(cost.kept) if cost.limit is not None else None,
    }


def _estimate(name: str, found: Any) -> dict[str, float]:
    value, low, high = found or [float("nan")] * 3
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise InputError("to_pandas needs a package; pip install pandas") from None
    return pandas
