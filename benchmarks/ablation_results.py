"""The table of what each part of `tuned` gives; `quoted_figures.py` writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from csv_rows import rows_of
from decomposition_results import change, percent
from markdown_table import table
from run_scores import returns_of

RESULTS = Path(__file__).parents[1] / "results" / "ablation"
SCORES = RESULTS / "scores.csv"
TASKS = ("HalfCheetah-v5", "Hopper-v5")
WHOLE = "APO"
PARTS = {
    WHOLE: "`tuned`",
    "APO adaptive_lambda=False": "lambda .9 without first learning the values",
    "APO value_constraint=0.0": "no Average Value Constraint (nu 0)",
    "APO normalize_observations=False": "observations not standardised",
    "APO normalize_advantages=False": "advantages not standardised",
    "APO scale_rewards=False": "rewards not scaled",
    "APO learning_rate_decay=False": "constant learning rate",
    "APO initial_log_std=0.0": "initial log standard deviation 0 instead of -1",
    "APO num_envs=10 rollout_steps=200": "ten environments with rollouts of 200 steps",
    "APO epochs=10 minibatch_size=100": "minibatches of 100 and ten passes",
    "APO action_bounds=raw": "actions beyond their bounds not clipped",
    "APO reset_cost_step_size=0.0": "no reset cost",
    "APO termination=zero reset_cost_step_size=0.0": "value of 0 after terminations (the paper's)",
}
"""Labels of the runs, and what they change."""


def returns(label: str, task: str) -> np.ndarray:
    """[seeds] final returns; empty if the setting was not run on the task."""
    own = [r for r in rows_of(SCORES) if (r["setting"], r["env"]) == (label, task)]
    return np.array([float(r["episode_return"]) for r in sorted(own, key=lambda r: int(r["seed"]))])


def parts() -> str:
    """For each part and task the return of each seed, the mean, and the change against `tuned`."""
    found = rows_of(SCORES)
    (length,) = {int(row["steps"]) for row in found}
    rows = []
    for label, words in PARTS.items():
        cells = [words]
        for task in TASKS:
            own, whole = returns(label, task), returns(WHOLE, task)
            if len(own) == 0:
                cells += ["", "", ""]
                continue
            each = returns_of([row for row in found if row["setting"] == label], task)
            against = "" if label == WHOLE else percent(change(own, whole))
            cells += [each, f"{own.mean():.0f}", against]
        rows.append(cells)
    names = [task.removesuffix("-v5") for task in TASKS]
    heads = [head for name in names for head in (f"{name}: each seed", "mean", "against `tuned`")]
    return table((f"{length // 1000}k steps", *heads), rows)
