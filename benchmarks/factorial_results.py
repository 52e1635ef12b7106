"""Tables of a factorial experiment around the `tuned` preset: lambda, rollouts and minibatches.

    python benchmarks/factorial_results.py RUN ...       # writes results/search/factorial.csv

A run is of one environment, algorithm and setting. Scores are those of `search_results.py`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from csv_rows import Row, rows_of, write_rows
from markdown_table import table
from search_results import NAMES, OPTIONS, REFERENCES, TASKS, TRIALS, fit, with_scale

SETTINGS = TRIALS.with_name("factorial.csv")
VARIED = ("gae_lambda", "num_envs x rollout_steps", "minibatch_size", "epochs")


def collect(runs: list[Path]) -> list[Row]:
    """A row for each setting: its options, the return on each environment, the score."""
    from longrun import read_results
    from longrun.lab.results.scores import scores_of
    from longrun.lab.results.statistics import interquartile_mean

    returns: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for run in runs:
        (setting,) = read_results([run])
        options = vars(setting.config)
        shape = f"{options['num_envs']} x {options['rollout_steps']}"
        varied = {**options, "num_envs x rollout_steps": shape}
        key = (setting.config.algorithm, *(str(varied[name]) for name in VARIED))
        returns[key][setting.env] = float(scores_of(setting, "episode_return")[0][0])
    rows = []
    for key, found in sorted(returns.items()):
        scores = np.array([[found[env] / REFERENCES[env]] for env in TASKS])
        score = float(interquartile_mean(scores))
        row = dict(zip(("algorithm", *VARIED), key, strict=True))
        row |= {env: f"{found[env]:.1f}" for env in TASKS}
        rows.append(row | {"score": f"{score:.4f}"})
    return rows


def settings() -> str:
    """Every setting, with its return on each task."""
    rows = []
    for row in rows_of(SETTINGS):
        returns = [f"{float(row[env]):.0f}" for env in TASKS]
        options = [row[name] for name in VARIED]
        rows.append((row["algorithm"].upper(), *options, *returns, f"{float(row['score']):.2f}"))
    heads = "algorithm", *(OPTIONS[name] for name in VARIED), *NAMES, "score"
    return with_scale(table(heads, rows))


def _is_long(row: Row) -> bool:
    return row["num_envs x rollout_steps"] == "2 x 1000"


TERMS: dict[str, Callable[[Row], float]] = {
    "PPO instead of APO": lambda row: row["algorithm"] == "ppo",
    "lambda .9 instead of .95": lambda row: row["gae_lambda"] == "0.9",
    "lambda .98 instead of .95": lambda row: row["gae_lambda"] == "0.98",
    "2 x 1000 instead of 10 x 200, APO": lambda row: _is_long(row) and row["algorithm"] == "apo",
    "2 x 1000 instead of 10 x 200, PPO": lambda row: _is_long(row) and row["algorithm"] == "ppo",
    "minibatch 50 and 5 epochs instead of 100 and 10": lambda row: row["epochs"] == "5",
}


def fitted() -> str:
    """What each choice adds to the score, from a least-squares fit to all settings together."""
    return fit(rows_of(SETTINGS), TERMS, "settings")


if __name__ == "__main__":
    found = collect([Path(each) for each in sys.argv[1:]])
    write_rows(SETTINGS, found)
