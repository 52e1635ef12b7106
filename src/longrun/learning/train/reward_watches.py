"""Watches for rewards that rank no policies, and for limits that are not kept."""

from __future__ import annotations

import math

from longrun.learning.options.config import TERMINATED, Average, Config
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.progress import Progress

PATIENCE = 10
"""Rows of metrics after which a reward is said to be constant: another one may be rare."""
UNKEPT_ITERATIONS = 100
"""Iterations, and at least half of a run, after which a limit has not been kept by any batch."""
UNKEPT_AT_LEAST = 20
"""Iterations of a run that is shorter than that, at its end."""


class ConstantReward:
    """Rewards that are all equal, so that the average criterion cannot rank policies.

    Where episodes terminate, a reset cost or a limit can; elsewhere nothing can.
    """

    def __init__(self, config: Config) -> None:
        self._watching = isinstance(config, Average)
        self._resets_cost = isinstance(config, Average) and bool(
            config.reset_cost or config.reset_cost_step_size or TERMINATED in dict(config.limits)
        )
        self._rewards: set[float] = set()
        self._rows = 0

    def __call__(self, event: Progress) -> str | None:
        if not self._watching:
            return None
        self._rewards |= {event.metrics["reward_min"], event.metrics["reward_max"]}
        self._rows += 1
        ends, is_time = bool(event.metrics["terminations"]), self._rows == PATIENCE
        if len(self._rewards) > 1 or ends or is_time:
            self._watching = False
        if len(self._rewards) > 1 or (ends and self._resets_cost):
            return None
        [reward] = self._rewards
        if ends:
            return (
                f"every reward so far was {reward:g}: all policies have the same reward rate, so"
                " the average criterion cannot rank them unless resets cost something; set"
                " termination='reset' and reset_cost (or reset_cost_step_size)"
            )
        if is_time:
            return (
                f"every reward so far was {reward:g} and no episode has terminated: no policy is"
                " better than another; check the environment's reward, unless another one is rare"
            )
        return None


class UnkeptLimits:
    """A limit that seems to be out of reach.

    Either `UNKEPT_ITERATIONS` in a row improved the policy for the costs alone (`recovering`: a
    multiplier at its bound, or recovering trust-region steps), or no batch in half of a run kept
    the limit.
    """

    def __init__(self, spec: RunSpec, config: Config) -> None:
        self._spec = spec
        self._limits = dict(config.limits)
        self._least: dict[str, float] = {}
        self._lowers_costs = False
        self._last_other = spec.first_iteration
        """the last iteration that improved the policy for the reward, too"""

    def __call__(self, event: Progress) -> str | None:
        rates = {name: event.metrics[f"cost_{name}"] for name in self._limits}
        for name, rate in rates.items():
            self._least[name] = min(rate, self._least.get(name, math.inf))
        self._lowers_costs = bool(event.metrics.get("recovering"))
        if not self._lowers_costs:
            self._last_other = event.iteration
        for name, limit in self._limits.items():
            if event.iteration - self._last_other >= UNKEPT_ITERATIONS and rates[name] > limit:
                return (
                    f"cost '{name}' is {rates[name]:.4g} and its limit is {limit:g}, after"
                    f" {UNKEPT_ITERATIONS} iterations that only lowered costs; no policy may keep"
                    " it: raise the limit"
                )
            if self._is_time(event.iteration) and self._least[name] > limit:
                return (
                    f"no batch has kept the limit {limit:g} of cost '{name}': the least was"
                    f" {self._least[name]:.4g}. Raise the limit, or train for longer"
                )
        return None

    def _is_time(self, iteration: int) -> bool:
        """Whether enough was seen, and costs are not being lowered right now."""
        begins, ends = self._spec.first_iteration, self._spec.iterations
        done, is_last = iteration - begins, iteration == ends
        if self._lowers_costs:
            return is_last and done >= UNKEPT_AT_LEAST
        enough = max(UNKEPT_ITERATIONS, (ends - begins) // 2)
        return done >= enough or (is_last and done >= UNKEPT_AT_LEAST)
