"""The options: one frozen, validated dataclass for each algorithm.

The four algorithms are a table, criterion x policy step, and so are their options:

|             | `Clipped`   | `TrustRegion` |
|-------------|-------------|---------------|
| `Average`   | `APOConfig` | `ATRPOConfig` |
| `Discounted`| `PPOConfig` | `TRPOConfig`  |

Defaults are those of `APO(env)`; presets are named changes of them (presets.py). Options marked
`numeric` are arrays in the compiled update: they can differ between replicas, and changing one
never recompiles, and so are the rates of `limits`. All others determine the compiled program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal, TypeVar

from longrun.base.checks import known
from longrun.base.errors import InputError
from longrun.learning.options.acting import ACTING, MLP, Acting
from longrun.learning.options.option_fields import checked, functions, limits, names, option, sizes

MOST_SAMPLES = 2**31 - 1
"""Most samples of an iteration: they are numbered in 32 bits."""
SHORTEST_ROLLOUT = 100
"""Steps that an adaptive lambda needs. Traces are at most as long as a rollout, and those of a
lambda of 0.9 are 10 steps: shorter rollouts leave little to choose from."""
FEWEST_ITERATIONS = 300
"""Fewest in which lambda adapts: choosing it takes 15 iterations, and lowering it 150."""
MOST_LIMITS = 8
"""Most limits of a trust-region step, which tries all combinations of limits that may bind."""
ADAPTIVE_LAMBDA = (
    "whether lambda adapts. The first 14 iterations learn only the values. If longer traces still"
    " change the policy gradient beyond noise, lambda starts at 1 - 1 / rollout_steps and falls to"
    " gae_lambda in 150 iterations. Lambda is gae_lambda otherwise. It is so, too, in runs of fewer"
    " than 300 iterations, with rollouts of fewer than 100 steps, and if gae_lambda alone is given"
)
LIMIT_STEP_SIZE = (
    "how fast limits are approached. APO and PPO: the step size of a multiplier's dual ascent."
    " ATRPO and TRPO: the share of a cost's distance from its limit that a step may use up, or must"
    " correct if the cost is above. A share of 1 is CPO: costs follow the noise of each batch"
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Options of every algorithm."""

    algorithm: ClassVar[str]
    """the name in files and on the command line"""

    gae_lambda: float = option(0.9, "lambda: weight of later TD errors in an advantage", high=1)
    adaptive_lambda: bool = option(False, ADAPTIVE_LAMBDA)
    learning_rate: float = option(3e-4, "beta: Adam's step size")
    num_envs: int = option(2, "environments of one replica", high=2**20)
    rollout_steps: int = option(1000, "steps of each environment in an iteration", high=2**24)
    epochs: int = option(5, "M: passes over a rollout")
    minibatch_size: int = option(
        50, "samples in a gradient step; a pass drops the remainder", high=MOST_SAMPLES
    )
    initial_log_std: float = option(
        -1.0, "initial log standard deviation of a Gaussian policy", low=-10, high=2
    )
    action_bounds: Literal["clip", "raw"] = option(
        "clip",
        "continuous actions beyond their bounds: 'clip' clips them before the environment; 'raw'"
        " (the authors') passes them on to it, and it may charge for the excess",
        among=("clip", "raw"),
    )
    hidden_sizes: tuple[int, ...] = option((64, 64), "hidden layers of each network", sizes)
    value_hidden_sizes: tuple[int, ...] = option((), "the value network's, if different", sizes)
    activation: Literal["tanh", "relu", "silu"] = option(
        "tanh",
        "function after each hidden layer: tanh, relu or silu",
        among=("tanh", "relu", "silu"),
    )
    layer_norm: bool = option(
        False, "standardise the outputs of each hidden layer, before its bias and its activation"
    )
    policy_network: str | tuple[Any, Any] = option(
        MLP, "the policy's network: 'mlp', or a pair of functions (init, apply)", functions
    )
    value_network: str | tuple[Any, Any] = option(
        MLP, "the value's network: 'mlp', or a pair of functions (init, apply)", functions
    )
    normalize_observations: bool = option(
        True, "standardise observations by running moments, kept inside the model"
    )
    normalize_advantages: bool = option(True, "standardise the advantages of each rollout")
    scale_rewards: bool = option(
        True, "divide rewards by the running standard deviation of their decayed sum"
    )
    learning_rate_decay: bool = option(
        True,
        "decrease the learning rate linearly to 0 over the run, and with it the steps of ATRPO and"
        " TRPO: limit_step_size, and kl_limit with the square",
    )
    limits: tuple[tuple[str, float], ...] = option(
        (),
        "largest long-run averages of costs, such as 0.001 for terminated; `costs` explains the"
        " names",
        limits,
    )
    costs: tuple[str, ...] = option(
        (),
        "costs to record besides the reward, in metrics and evaluations: terminated, action_energy,"
        " out_of_bounds, or names of what the environment gives (info['cost'], info['costs'])",
        names,
    )

    @property
    def acting(self) -> Acting:
        """The options that acting depends on."""
        return Acting(**{name: getattr(self, name) for name in ACTING})

    @property
    def draws_evaluated_actions(self) -> bool:
        """Whether evaluations draw actions, instead of taking the most likely ones.

        With limits they do: limits hold for actions as they are drawn in training, and the best
        policy that keeps them may have to draw.
        """
        return bool(self.limits)

    @property
    def headed_limits(self) -> tuple[tuple[str, float], ...]:
        """The limits whose costs have a head of the value network."""
        return self.limits

    @property
    def recorded(self) -> tuple[str, ...]:
        """Names of the costs that rollouts hold: those to record, and those with a limit."""
        return tuple(dict.fromkeys((*self.costs, *(name for name, _ in self.limits))))

    @property
    def adapts_lambda(self) -> bool:
        """Whether lambda changes while learning."""
        return self.adaptive_lambda and self.rollout_steps >= SHORTEST_ROLLOUT

    def has_time_to_adapt(self, iterations: int) -> bool:
        """Whether lambda adapts in a run of so many iterations."""
        return self.adapts_lambda and iterations >= FEWEST_ITERATIONS

    def may_grow(self, steps: int, more: int) -> bool:
        """Whether a run of `steps` that is extended to `more` learns what one of `more` does."""
        iterations = (-(-n // self.steps_per_iteration) for n in (steps, more))
        shorter, longer = map(self.has_time_to_adapt, iterations)
        return shorter == longer and not self.learning_rate_decay

    @property
    def steps_per_iteration(self) -> int:
        """N in the paper: samples of one iteration."""
        return self.num_envs * self.rollout_steps

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            object.__setattr__(self, each.name, checked(each, getattr(self, each.name)))
        if self.steps_per_iteration > MOST_SAMPLES:
            raise InputError(
                f"num_envs={self.num_envs} x rollout_steps={self.rollout_steps} are more samples of"
                f" an iteration than can be counted; choose at most {MOST_SAMPLES}"
            )
        if self.minibatch_size > self.steps_per_iteration:
            raise InputError(
                f"minibatch_size={self.minibatch_size} is larger than a rollout of num_envs="
                f"{self.num_envs} x rollout_steps={self.rollout_steps}; lower minibatch_size"
            )


@dataclass(frozen=True, kw_only=True)
class Average(Config):
    """Options of the average criterion."""

    adaptive_lambda: bool = option(True, ADAPTIVE_LAMBDA)
    gain_step_size: float = option(
        0.1, "alpha: step size of the running means gain and value offset", high=1
    )
    value_constraint: float = option(
        0.1,
        "nu: strength of the Average Value Constraint, which pulls the mean value to 0."
        " With termination=zero it favours terminations: the 0 after one is then the value of an"
        " average state, and more than that of a bad one",
        high=1,
    )
    termination: Literal["zero", "reset"] = option(
        "reset",
        "after a termination: 'zero' (the paper's) uses a differential value of 0, which favours"
        " ending in bad states (see value_constraint); 'reset' continues through the reset",
        among=("zero", "reset"),
    )
    reset_cost: float = option(
        0.0, "(initial) cost subtracted from the reward at a termination; with termination=reset"
    )
    reset_cost_step_size: float = option(
        1.0, "step size of the reset cost's dual ascent; 0 keeps it fixed"
    )
    termination_target: float = option(
        1e-3,
        "terminations per step that an adaptive reset cost aims at; a limit on terminated"
        " replaces it",
        low=1e-9,
        high=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        resets_cost = self.termination == "reset" and self.reset_cost_step_size
        if TERMINATED in dict(self.limits) and not resets_cost:
            raise InputError(
                f"limits on '{TERMINATED}' are kept by the reset cost: set termination='reset' and"
                " reset_cost_step_size above 0"
            )
        if self.termination == "zero" and (self.reset_cost or self.reset_cost_step_size):
            name = "reset_cost" if self.reset_cost else "reset_cost_step_size"
            raise InputError(
                f"{name}={getattr(self, name)} has no effect with termination='zero';"
                f" set termination='reset' or {name}=0"
            )

    @property
    def headed_limits(self) -> tuple[tuple[str, float], ...]:
        """All but a limit on terminations, which the reset cost keeps."""
        return tuple((name, rate) for name, rate in self.limits if name != TERMINATED)

    @property
    def terminations_aimed_at(self) -> float:
        """Terminations per step that an adaptive reset cost aims at: the limit, if there is one."""
        return dict(self.limits).get(TERMINATED, self.termination_target)


@dataclass(frozen=True, kw_only=True)
class Discounted(Config):
    """Options of the discounted criterion."""

    discount: float = option(0.99, "gamma: the discount factor", high=1)


@dataclass(frozen=True, kw_only=True)
class Clipped(Config):
    """Options of the clipped policy step, which keeps limits by multipliers."""

    clip_range: float = option(
        0.2, "epsilon: the ratio's trust region is 1 +- clip_range", low=1e-9, high=1
    )
    entropy_coefficient: float = option(0.0, "weight of the entropy bonus")
    limit_step_size: float = option(0.05, LIMIT_STEP_SIZE, low=1e-6, high=1)


@dataclass(frozen=True, kw_only=True)
class TrustRegion(Config):
    """Options of the trust-region policy step; learning rate and epochs fit the value network.

    It keeps limits by constraints on each step instead of multipliers.
    """

    kl_limit: float = option(0.01, "largest mean KL divergence of a policy step", low=1e-12)
    limit_step_size: float = option(0.3, LIMIT_STEP_SIZE, low=1e-6, high=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.headed_limits) > MOST_LIMITS:
            raise InputError(
                f"limits has {len(self.headed_limits)} entries; a trust-region step takes at most"
                f" {MOST_LIMITS}; give fewer, or use APO or PPO"
            )


@dataclass(frozen=True, kw_only=True)
class APOConfig(Average, Clipped):
    """Average Policy Optimization (Ma et al., 2021): average reward, clipped policy step."""

    algorithm: ClassVar[str] = "apo"


@dataclass(frozen=True, kw_only=True)
class PPOConfig(Discounted, Clipped):
    """Proximal Policy Optimization: discounted reward, clipped policy step."""

    algorithm: ClassVar[str] = "ppo"


@dataclass(frozen=True, kw_only=True)
class ATRPOConfig(Average, TrustRegion):
    """Average-reward TRPO: average reward, trust-region policy step."""

    algorithm: ClassVar[str] = "atrpo"


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(Discounted, TrustRegion):
    """Trust Region Policy Optimization: discounted reward, trust-region policy step."""

    algorithm: ClassVar[str] = "trpo"


TERMINATED = "terminated"
"""The cost that an adaptive reset cost limits as well."""
ALGORITHMS: dict[str, type[Config]] = {
    kind.algorithm: kind for kind in (APOConfig, PPOConfig, ATRPOConfig, TRPOConfig)
}
ELSEWHERE = {
    "apo-authors": ("longrun.lab.paper.authors", "AuthorsAPO"),
    "ppo-authors": ("longrun.lab.paper.authors", "AuthorsPPO"),
}
"""Module and class of further algorithms, which are imported when first used."""


def kind_of(algorithm: str) -> type[Config]:
    """The configuration of an algorithm; an unknown name raises an InputError."""
    if algorithm in ELSEWHERE:
        module, name = ELSEWHERE[algorithm]
        kind: type[Config] = getattr(import_module(module), name)
        return kind
    return ALGORITHMS[known("algorithm", algorithm, ALGORITHMS)]


T = TypeVar("T")


def of_kind(table: Mapping[type[Config], T], config: Config) -> T:
    """The table's entry for the nearest of the configuration's classes."""
    return next(table[kind] for kind in type(config).__mro__ if kind in table)


def numeric_fields(kind: type[Config] | Config) -> list[str]:
    """Names of the options that are arrays in the compiled update."""
    return [o.name for o in dataclasses.fields(kind) if o.metadata.get("numeric")]
