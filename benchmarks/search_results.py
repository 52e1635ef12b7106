"""Tables of a search for one setting on several environments.

    python benchmarks/search_results.py SWEEP        # writes results/search/trials.csv

`quoted_figures.py` writes the tables into results/tuned.md. A score is the final return (the mean
over the last tenth of training) divided by the environment's reference. The references are of other
versions of the tasks and of MuJoCo: a fixed scale for trials, and no comparison.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from csv_rows import Row, rows_of, write_rows
from markdown_table import table

TRIALS = Path(__file__).parents[1] / "results" / "search" / "trials.csv"
OPTIONS = {
    "gae_lambda": "lambda",
    "num_envs x rollout_steps": "environments x steps",
    "minibatch_size": "minibatch",
    "epochs": "epochs",
    "learning_rate": "learning rate",
    "normalize_observations": "standardised observations",
    "action_bounds": "action bounds",
    "initial_log_std": "initial log std",
    "discount": "discount",
    "gain_step_size": "alpha",
    "value_constraint": "nu",
}
"""Columns of the file, and their names in tables."""
REFERENCES = {
    "HalfCheetah-v5": 7337,
    "Hopper-v5": 3128,
    "Walker2d-v5": 4896,
    "Ant-v5": 4079,
    "Swimmer-v5": 81,
    "Humanoid-v5": 1360,
}
"""Best checkpoints of Tianshou's PPO at 3M steps, from its published benchmark of v3 tasks."""
SCALE = (
    "Scores are returns divided by those that Tianshou reports."
    " These are of v3 tasks with MuJoCo 2.0 and only a scale."
)
"""Below every table of scores."""
TASKS = tuple(REFERENCES)
NAMES = tuple(task.removesuffix("-v5") for task in TASKS)
"""Of the tasks, in tables."""
BEST = 4
"""Trials of each algorithm in the table of the best."""
LEARNING_RATES = (1e-4, 2e-4, 4e-4, 1e-3)
"""Ends of the intervals by which the effect of the learning rate is shown."""


def collect(sweep: Path) -> list[Row]:
    """A row for each trial: its options, the return on each environment, the score."""
    from longrun.lab.results.read import read_results
    from longrun.lab.results.scores import scores_of
    from longrun.lab.sweeps.optuna_search import OptunaSearch
    from longrun.lab.sweeps.sweep_folder import SweepFolder

    folder = SweepFolder.open(sweep)
    search, design = OptunaSearch(folder), folder.search
    rows = []
    trials = {(run.algorithm, _trial(name)) for name, run in folder.runs.items()}
    for algorithm, number in sorted(trials):
        runs = {
            name: run
            for name, run in folder.runs.items()
            if (run.algorithm, _trial(name)) == (algorithm, number)
        }
        [config] = {run.configs[0] for run in runs.values()}
        space = design.space(algorithm)
        options = {option: getattr(config, option) for option in (*space.lists, *space.ranges)}
        shape = f"{options.pop('num_envs')} x {options.pop('rollout_steps')}"
        options["num_envs x rollout_steps"] = shape
        done = [name for name in runs if folder.is_finished(name)]
        returns = {
            runs[name].env: float(scores_of(setting, design.metric)[0][0])
            for name in done
            for setting in read_results(folder.folder(name))
        }
        score = search.score(runs) if len(done) == len(runs) else None
        row = {"algorithm": algorithm, "trial": str(number)}
        row |= {name: str(options.get(name, "")) for name in OPTIONS}
        row |= {env: f"{returns[env]:.1f}" if env in returns else "" for env in TASKS}
        rows.append(row | {"score": "" if score is None else f"{score:.4f}"})
    return rows


def _trial(run: str) -> int:
    return int(run.rpartition("trial=")[2].partition("_")[0])


def finished(algorithm: str) -> list[Row]:
    """Trials that have a score, the best first."""
    rows = [row for row in rows_of(TRIALS) if row["algorithm"] == algorithm]
    return sorted((r for r in rows if r["score"]), key=lambda row: -float(row["score"]))


def best() -> str:
    """The best trials of each algorithm, and its preset."""
    rows = []
    for algorithm in ("apo", "ppo"):
        trials = finished(algorithm)
        for row in trials[:BEST] + [row for row in trials[BEST:] if row["trial"] == "0"]:
            preset = " (`tuned`)" if row["trial"] == "0" else ""
            options = ", ".join(f"{OPTIONS[n]} {_short(row[n])}" for n in OPTIONS if row[n])
            returns = [f"{float(row[task]):.0f}" for task in TASKS]
            name = f"{algorithm.upper()} {row['trial']}{preset}"
            rows.append((name, f"{float(row['score']):.2f}", *returns, options))
    return with_scale(table(("trial", "score", *NAMES, "options"), rows))


def effects() -> str:
    """For each option and value the mean score of the trials that have it."""
    both = finished("apo"), finished("ppo")
    rows = [(name, *(_means(own, option) for own in both)) for option, name in OPTIONS.items()]
    spreads = [np.std([float(row["score"]) for row in own], ddof=1) for own in both]
    rows.append(("standard deviation over trials", *(f"{spread:.2f}" for spread in spreads)))
    return with_scale(
        table(("option", "APO: mean score (trials)", "PPO: mean score (trials)"), rows)
    )


def fitted() -> str:
    """What each choice adds to the score, from a least-squares fit to all trials together."""
    return fit(finished("apo") + finished("ppo"), TERMS, "trials")


def fit(given: Sequence[Row], terms: dict[str, Callable[[Row], float]], words: str) -> str:
    """The coefficients of `terms` in the scores of `given` rows, with standard errors."""
    columns = [[float(of(row)) for row in given] for of in terms.values()]
    choices = np.stack([np.ones(len(given)), *columns], -1)
    scores = np.array([float(row["score"]) for row in given])
    effect = np.linalg.lstsq(choices, scores, rcond=None)[0]
    rest = ((scores - choices @ effect) ** 2).sum() / (len(scores) - len(effect))
    error = np.sqrt(rest * np.diag(np.linalg.inv(choices.T @ choices)))
    rows = [
        (name, f"{value:+.2f} +- {about:.2f}")
        for name, value, about in zip(terms, effect[1:], error[1:], strict=True)
    ]
    rows.append(("what the fit leaves, standard deviation", f"{np.sqrt(rest):.2f}"))
    return with_scale(table((f"choice ({len(given)} {words})", "score, +- standard error"), rows))


def with_scale(scores: str) -> str:
    """A table of scores, and what they were divided by."""
    return f"{scores}\n\n{SCALE}"


TERMS: dict[str, Callable[[Row], float]] = {
    "PPO instead of APO": lambda row: row["algorithm"] == "ppo",
    "initial log std lower by 0.5": lambda row: -2 * float(row["initial_log_std"]),
    "standardised observations": lambda row: row["normalize_observations"] == "True",
    "raw actions instead of clipped": lambda row: row["action_bounds"] == "raw",
    "learning rate doubled": lambda row: np.log2(float(row["learning_rate"])),
    "10 epochs instead of 5": lambda row: row["epochs"] == "10",
    "minibatch doubled": lambda row: np.log2(float(row["minibatch_size"])),
    "2 x 1000 instead of 10 x 200": lambda row: (
        np.log(10 / float(row["num_envs x rollout_steps"].split()[0])) / np.log(5)
    ),
    "lambda .8 instead of .9 or .95": lambda row: row["gae_lambda"] == "0.8",
    "lambda .97 or .99 instead of .9 or .95": lambda row: float(row["gae_lambda"]) > 0.96,
}
"""Terms of the fit."""


def _means(rows: Sequence[Row], option: str) -> str:
    groups: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: _order(row[option])):
        if row[option]:
            value = _interval(row[option]) if option == "learning_rate" else _short(row[option])
            groups.setdefault(value, []).append(float(row["score"]))
    return ", ".join(f"{v}: {np.mean(own):.2f} ({len(own)})" for v, own in groups.items())


def _order(value: str) -> tuple[float, str]:
    """Numbers by size, words by the alphabet."""
    with suppress(ValueError, IndexError):
        return float(value.split()[0]), value
    return 0.0, value


def _interval(value: str) -> str:
    ends = itertools.pairwise(LEARNING_RATES)
    return next(f"{_short(str(a))} to {_short(str(b))}" for a, b in ends if float(value) <= b)


def _short(value: str) -> str:
    """A value as tables have it: True is yes, 0.0003 is 3e-4."""
    if " " in value or value.isalpha():
        return {"True": "yes", "False": "no"}.get(value, value)
    number = float(value)
    if not 0 < number < 0.002:
        return f"{number:g}"
    digits, power = f"{number:.1e}".split("e")
    return f"{float(digits):g}e{int(power)}"


if __name__ == "__main__":
    found = collect(Path(sys.argv[1]))
    TRIALS.parent.mkdir(exist_ok=True)
    write_rows(TRIALS, found)
