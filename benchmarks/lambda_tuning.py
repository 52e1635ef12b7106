"""Tables of how the adaptive lambda was chosen, on tuning seeds.

`quoted_figures.py` writes them.
"""

from __future__ import annotations

from collections import defaultdict

from choice_results import SEARCH
from csv_rows import Row, rows_of
from markdown_table import table
from run_scores import each_and_mean, mean_of, rows_of_task
from search_results import TASKS

RUNS = SEARCH / "lambda.csv"
SWIMMER = "Swimmer-v5"
LAMBDAS = {
    "fixed .9": ".9",
    "fixed .95": ".95",
    "fixed .98": ".98",
    "fixed .99": ".99",
    "from .9, twice the length": "from .9 up, compared with a trace of twice the length",
    "from .9, twice the length, noise .05": "the same, an agreement of .05 taken for noise",
    "from .9": "from .9 up, compared with half the length",
    "adaptive": "from .99 down",
    "initial log std -0.5": ".9, initial log standard deviation -0.5",
    "gain_step_size 0.03": ".9, alpha .03",
    "gain_estimate td": ".9, `gain_estimate=td`",
    "fixed .95, 4 x 1000, minibatch 100": ".95, four environments, minibatches of 100",
    "adaptive, initial log std -0.5": "from .99 down, initial log standard deviation -0.5",
    "fixed .99, 4 x 1000, minibatch 100": ".99, four environments, minibatches of 100",
    "fixed .99, 10 x 1000, minibatch 250": ".99, ten environments, minibatches of 250",
    "fixed .99, 10 x 1000, minibatch 500": ".99, ten environments, minibatches of 500, ten epochs",
    "fixed .99, minibatch 250": ".99, minibatches of 250",
    "fixed .99, 2 epochs": ".99, two epochs",
}
"""Names of the runs, and their lambda."""
LONGER_TRACES = {
    "adaptive": "from .99, up and down (the table above)",
    "adaptive, initial log std -0.5": "the same, initial log standard deviation -0.5",
    "adaptive, from .9967": "from .9967, traces of 300 steps, up and down",
    "adaptive, from .999": "from .999, traces of a whole rollout, up and down",
    "adaptive, from .999, twice the speed": "the same, twice as fast",
    "adaptive, from .999, seven times the speed": "the same, seven times as fast",
    "falling only, from .999": "from .999, never up",
    "falling only, from .999, twice the speed": "the same, twice as fast",
    "schedule, 154 iterations": "from .999 to .9 in 154 iterations, whatever the halves say",
    "schedule, 100 iterations": "the same in 100 iterations",
    "schedule, 40 iterations": "the same in 40 iterations",
    "slow or fast": "in 150 iterations, or in 20 where traces of 10 and 20 steps are alike",
    "values first, 300 iterations": "values first, then from .999 to .9 in 300 iterations",
}
"""Names of the later runs, and their lambda."""
OTHER_TASKS = {
    "adaptive": "from .99, up and down",
    "adaptive, initial log std -0.5": "the same, initial log standard deviation -0.5",
    "adaptive, from .999, twice the speed": "from .999, up and down, twice as fast",
    "schedule, 50 iterations": "from .999 to .9 in 50 iterations",
    "slow or fast": "**from .999 in 150 iterations, or in 20**",
    "values first": "**values first, then .9**",
}
"""Those on other tasks than Swimmer."""


def lambdas() -> str:
    """Swimmer with fixed lambdas, and with those that adapt: each seed, and the mean."""
    return _swimmer(LAMBDAS, range(110, 118))


def longer_traces() -> str:
    """Swimmer with traces up to those of a whole rollout: each seed, and the mean."""
    return _swimmer(LONGER_TRACES, range(120, 128))


def _swimmer(settings: dict[str, str], seeds: range) -> str:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows_of(RUNS):
        if row["env"] == SWIMMER and int(row["seed"]) in seeds:
            found[row["setting"]].append(row)
    rows = []
    for setting, words in settings.items():
        rows.append((words, *each_and_mean(found[setting], SWIMMER)))
    title = f"seeds {seeds[0]} to {seeds[-1]}"
    return table(("Swimmer-v5, 800k steps", title, "mean"), rows)


def falls() -> str:
    """Swimmer at 3M steps: how slowly lambda falls from where the values were learned."""
    rows = []
    for words in ("150 iterations", "600 iterations"):
        setting = f"values first, {words}"
        own = [row for row in rows_of(RUNS) if row["setting"] == setting]
        rows.append((f"from .999 to .9 in {words}", *each_and_mean(own, SWIMMER)))
    return table(("Swimmer-v5, 3M steps, values first", "seeds 120 to 125", "mean"), rows)


def other_tasks() -> str:
    """The tuning seeds of the other tasks with a fixed lambda, and with those that fall."""
    fixed = rows_of(SEARCH / "choice.csv") + rows_of(SEARCH / "leads.csv")
    longer = [row for row in rows_of(RUNS) if row["steps"] == "1000000"]
    later = [row for row in longer if row["env"] != SWIMMER]
    usual = [row for row in fixed if row["setting"] in ("apo_L", "L_base")]
    tried = {
        "lambda .9": usual,
        "lambda .9, run again": [row for row in later if row["setting"] == "fixed .9"],
        **{
            words: [row for row in later if row["setting"] == setting]
            for setting, words in OTHER_TASKS.items()
        },
    }
    tasks = [task for task in TASKS if task != SWIMMER]
    rows = [(words, *(_with_seeds(own, task) for task in tasks)) for words, own in tried.items()]
    return table(("1M steps, seed: return", *(task.removesuffix("-v5") for task in tasks)), rows)


def agreement() -> str:
    """How far halves of a batch agree while only the values are learned: the range over seeds."""
    found = rows_of(SEARCH / "agreement.csv")
    columns = {"iterations_1_to_5": "iterations 1 to 5", "iterations_6_to_15": "6 to 15"}
    rows = []
    for task in TASKS:
        own = rows_of_task(found, task)
        ranges = (sorted(float(row[column]) for row in own) for column in columns)
        cells = (f"{values[0]:.2f} to {values[-1]:.2f}" for values in ranges)
        rows.append((task, f"{own[0]['seed']} to {own[-1]['seed']}", *cells))
    return table(("agreement of the halves", "seeds", *columns.values()), rows)


def values_first() -> str:
    """Ant with and without iterations in which only the values are learned."""
    task = "Ant-v5"
    found = [row for row in rows_of(RUNS) if row["steps"] == "400000"]
    rows = []
    for setting, words in (("fixed .9", "lambda .9"), ("values first", "values first, then .9")):
        own = [row for row in found if row["setting"] == setting]
        rows.append((words, *each_and_mean(own, task), mean_of(own, "average_reward", ".2f")))
    heads = f"{task}, 400k steps", "seeds 140 to 145", "mean", "reward per step"
    return table(heads, rows)


def _with_seeds(rows: list[Row], task: str) -> str:
    own = rows_of_task(rows, task)
    return ", ".join(f"{row['seed']}: {float(row['episode_return']):.0f}" for row in own)
