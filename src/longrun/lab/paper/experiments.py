"""The paper's experiments as sweeps: the runs of each figure, at three scales.

Tasks, discount factors, step sizes and constraint strengths are the paper's (Figures 1 and 2,
Appendices B and C). Lambda, alpha and nu of APO on a task are the best ones according to the
notebooks that the authors published, if these name any. Each experiment can be run as the paper has
it or as the authors' code does, by the algorithms of authors.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longrun.base.checks import known
from longrun.lab.sweeps import plan
from longrun.lab.sweeps.grids import Options, points_of
from longrun.lab.sweeps.plan import Planned, Setting
from longrun.learning.envs.env_strings import with_args
from longrun.learning.options.config_options import make_config

Tried = list[tuple[str, Options]]
"""Algorithms, and the options that they are run with."""

FIGURE_TASKS = ("Swimmer-v5", "HalfCheetah-v5", "Ant-v5")
OTHER_TASKS = ("Hopper-v5", "Walker2d-v5", "Humanoid-v5")
DISCOUNTS = (0.9, 0.95, 0.99, 0.999)
LAMBDAS = (0.8, 0.9, 0.95, 0.99)
STEP_SIZES = (0.03, 0.1, 0.3)
CONSTRAINTS = (0.0, 0.03, 0.1, 0.3, 1.0)

BEST_APO: dict[str, dict[str, float]] = {
    "Swimmer-v5": {"gae_lambda": 0.99, "gain_step_size": 0.03, "value_constraint": 0.3},
    "HalfCheetah-v5": {"gae_lambda": 0.9, "gain_step_size": 0.1, "value_constraint": 1.0},
    "Ant-v5": {"gae_lambda": 0.95, "gain_step_size": 0.1, "value_constraint": 0.3},
}
"""APO's options by task; on others it has those of the preset: lambda 0.95, alpha 0.1, nu 0.1."""
AUTHORS_DISCOUNT = {"Swimmer-v5": 0.999, "HalfCheetah-v5": 0.999}
"""Discount beside the gain in the names of the same settings; the paper has none."""
NO_FORCES = {"include_cfrc_ext_in_observation": False, "contact_cost_weight": 0}
AUTHORS_ENV_ARGS = {"Ant-v5": NO_FORCES, "Humanoid-v5": NO_FORCES}
"""Gym's v3 with MuJoCo 2.0 had contact forces of 0 in observations and rewards; v5 has them."""
PPO_LAMBDA = 0.95
"""Lambda of PPO in the same notebooks."""
WAYS = {
    "paper": "the paper's setting, with our answers where it leaves a point open",
    "authors": "also what the authors' code does differently, the discount of 0.999"
    " in their best APO settings of Swimmer and HalfCheetah, and no contact forces (Ant, Humanoid)",
}
"""Ways in which an experiment can be run, in words."""


@dataclass(frozen=True)
class Scale:
    """Size of an experiment."""

    steps: int
    seeds: int
    whole_grid: bool = False
    """Train PPO with every lambda of Appendix B, not only with `PPO_LAMBDA`."""
    eval_every: int = 20_000
    """The interval of the authors' code; the paper says 2000."""


SCALES = {
    "smoke": Scale(steps=20_000, seeds=2, eval_every=4_000),
    "laptop": Scale(steps=1_000_000, seeds=5),
    "paper": Scale(steps=3_000_000, seeds=5, whole_grid=True),
}
SCALES_IN_WORDS = {
    "smoke": "20 thousand steps, 2 seeds: takes minutes, to see that everything works",
    "laptop": "1 million steps, 5 seeds: some hours on two cores",
    "paper": "3 million steps, 5 seeds, every lambda of Appendix B for PPO",
}


def runs_of(
    experiment: str, scale: Scale, tasks: Sequence[str], way: str = "paper"
) -> list[Planned]:
    """The runs of an experiment, in one of the `WAYS`."""
    is_paper = way == "paper"
    settings = [
        Setting(
            task if is_paper else with_args(task, AUTHORS_ENV_ARGS.get(task, {})),
            make_config(algorithm if is_paper else f"{algorithm}-{way}", "paper", **options),
            "paper",
            options,
        )
        for task in tasks
        for algorithm, options in EXPERIMENTS[experiment](scale, task, way)
    ]
    return plan.runs_of(settings, range(scale.seeds), scale.steps, eval_every=scale.eval_every)


def figure1(scale: Scale, task: str, way: str) -> Tried:
    """APO, and PPO with four discount factors."""
    lambdas = LAMBDAS if scale.whole_grid else (PPO_LAMBDA,)
    ppo = points_of({"discount": DISCOUNTS, "gae_lambda": lambdas})
    return [("apo", best_apo(task, way)), *(("ppo", point) for point in ppo)]


def figure2(scale: Scale, task: str, way: str) -> Tried:
    """APO with five strengths of the Average Value Constraint."""
    return [("apo", best_apo(task, way) | {"value_constraint": nu}) for nu in CONSTRAINTS]


def grid(scale: Scale, task: str, way: str) -> Tried:
    """Appendix B: every combination, 60 settings of APO and 16 of PPO for each task.

    APO's have no discount, the authors' neither: their grid is the released code's.
    """
    apo = points_of(
        {"gae_lambda": LAMBDAS, "gain_step_size": STEP_SIZES, "value_constraint": CONSTRAINTS}
    )
    ppo = points_of({"discount": DISCOUNTS, "gae_lambda": LAMBDAS})
    return [*(("apo", point) for point in apo), *(("ppo", point) for point in ppo)]


def best_apo(task: str, way: str = "paper") -> dict[str, float]:
    """What APO is run with on a task."""
    discounted = way == "authors" and task in AUTHORS_DISCOUNT
    more = {"value_discount": AUTHORS_DISCOUNT[task]} if discounted else {}
    return BEST_APO.get(task, {}) | more


EXPERIMENTS: dict[str, Callable[[Scale, str, str], Tried]]
EXPERIMENTS = {"figure1": figure1, "figure2": figure2, "appendix": figure1, "grid": grid}
TASKS = dict.fromkeys(EXPERIMENTS, FIGURE_TASKS) | {"appendix": (*FIGURE_TASKS, *OTHER_TASKS)}


def tasks_of(experiment: str, wanted: Sequence[str] | None = None) -> Sequence[str]:
    """All tasks of the experiment, or the wanted ones. Raises InputError for an unknown task."""
    tasks = TASKS[experiment]
    return tasks if wanted is None else [known("task", task, tasks) for task in wanted]
