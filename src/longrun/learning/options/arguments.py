"""The arguments that algorithms take, for editors, type checkers and `help`.

The options are those of the dataclasses in config.py, which have their meanings, defaults and
ranges; a test compares the two. Sequences and mappings are taken where a field holds a tuple.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, get_type_hints

from longrun.learning.options.config import Config
from longrun.learning.options.config_options import value_text

Network = Literal["mlp"] | tuple[Any, Any]


class AgentArguments(TypedDict, total=False):
    """What every agent takes besides its options."""

    seed: int
    preset: Literal["tuned", "paper", "queueing"]
    env_args: Mapping[str, Any] | None
    num_workers: int | None
    step_timeout: float
    name: str | None


class Options(TypedDict, total=False):
    """Options of every algorithm."""

    gae_lambda: float
    adaptive_lambda: bool
    learning_rate: float
    num_envs: int
    rollout_steps: int
    epochs: int
    minibatch_size: int
    initial_log_std: float
    action_bounds: Literal["clip", "raw"]
    hidden_sizes: Sequence[int]
    value_hidden_sizes: Sequence[int]
    activation: Literal["tanh", "relu", "silu"]
    layer_norm: bool
    policy_network: Network
    value_network: Network
    normalize_observations: bool
    normalize_advantages: bool
    scale_rewards: bool
    learning_rate_decay: bool
    limits: Mapping[str, float] | Sequence[tuple[str, float]]
    limit_step_size: float
    costs: Sequence[str]


class AverageOptions(Options, total=False):
    """Options of the average criterion."""

    gain_step_size: float
    value_constraint: float
    termination: Literal["zero", "reset"]
    reset_cost: float
    reset_cost_step_size: float
    termination_target: float


class DiscountedOptions(Options, total=False):
    """Options of the discounted criterion."""

    discount: float


class ClippedOptions(Options, total=False):
    """Options of the clipped policy step."""

    clip_range: float
    entropy_coefficient: float


class TrustRegionOptions(Options, total=False):
    """Options of the trust-region policy step."""

    kl_limit: float


class APOArguments(AverageOptions, ClippedOptions, AgentArguments, total=False):
    """Arguments of `APO`."""


class PPOArguments(DiscountedOptions, ClippedOptions, AgentArguments, total=False):
    """Arguments of `PPO`."""


class ATRPOArguments(AverageOptions, TrustRegionOptions, AgentArguments, total=False):
    """Arguments of `ATRPO`."""


class TRPOArguments(DiscountedOptions, TrustRegionOptions, AgentArguments, total=False):
    """Arguments of `TRPO`."""


def signature_with_options(init: Callable[..., Any], kind: type[Config]) -> inspect.Signature:
    """The signature of an agent's class: the arguments of `init`, then every option."""
    given = list(inspect.signature(init).parameters.values())[1:]  # without self
    own = [p for p in given if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    types = get_type_hints(kind)
    options = [
        inspect.Parameter(
            o.name, inspect.Parameter.KEYWORD_ONLY, default=o.default, annotation=types[o.name]
        )
        for o in dataclasses.fields(kind)
    ]
    return inspect.Signature([*own, *options])


def options_in_words(kind: type[Config]) -> str:
    """A list of the options with their defaults and meanings, for a docstring."""
    lines = ["Options", "-------"]
    for option in dataclasses.fields(kind):
        lines.append(f"{option.name} : {option.type}, default {value_text(option.default)}")
        lines += textwrap.wrap(
            option.metadata["help"], 88, initial_indent="    ", subsequent_indent="    "
        )
    return "\n".join(lines)
