"""Watches for trainings that go wrong without an error, each of which is said once in a run.

They read the metrics and evaluations that are reported anyway, of which a device may leave out
some iterations: nothing here takes a row for an iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from longrun.base.errors import warn
from longrun.learning.envs.spaces import Spaces
from longrun.learning.options.config import Average, Config
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train.evaluation import evaluation_shape
from longrun.learning.train.progress import Progress

GROWN = 10.0
"""A batch has drifted if its mean is this many times the worst of the first batch."""
PARTS = 10
"""Parts of a run, whose means are compared."""
FEWEST_ROWS = 5
"""Rows of a part from which the error of its mean is known."""
ERRORS = 3.0
"""Standard errors by which the means of two parts in a row have to be lower."""
LOST = 0.2
"""Share of the best mean reward so far whose loss counts."""
COLLAPSED = 0.01
"""Part of the greatest entropy, or of the first standard deviation, that is next to nothing."""
APART = 0.25
"""Share of the range of rewards by which an evaluation contradicts the batches, if twice in a row;
the whole range is enough once."""
PATIENCE = 10
"""Rows of metrics after which a reward is said to be constant: another one may be rare."""
UNKEPT_ITERATIONS = 100
"""Iterations, and at least half of a run, after which a limit has not been kept by any batch."""
UNKEPT_AT_LEAST = 20
"""Iterations of a run that is shorter than that, at its end."""


class Means(NamedTuple):
    """Means of one part of a run, and the standard error of the reward's."""

    reward: float
    error: float
    """infinite where there are too few rows"""
    entropy: float


Watch = Callable[[Progress], str | None]
"""The message of one kind of failure of one replica, at the iteration in which it is seen."""


class FailureWatch:
    """Warns once for each kind of failure of a run."""

    def __init__(self, spec: RunSpec, spaces: Spaces) -> None:
        self._said: set[str] = set()
        self._watches: list[dict[str, Watch]] = [
            {
                "constant": ConstantReward(config),
                "drift": Drift(),
                "collapse": Collapse(spec, spaces),
                "contradiction": Contradiction(spec, config),
                "limits": UnkeptLimits(spec, config),
            }
            for config in spec.configs
        ]

    def __call__(self, events: Sequence[Progress]) -> None:
        """Take in what happened, and warn if it is time to."""
        for event in events:
            for kind, watch in self._watches[event.replica].items():
                message = None if kind in self._said else watch(event)
                if message is not None:
                    self._said.add(kind)
                    where = f"seed {event.seed}, iteration {event.iteration:,}"
                    warn(f"{message} ({where})")


class Drift:
    """Rewards or observations that have left all that the first batch had.

    The mean reward is compared with the worst single reward, so that the start-up of a long queue
    is no drift. Observations may grow where the reward improves: a robot has learned to run.
    """

    def __init__(self) -> None:
        self._first: dict[str, float] = {}

    def __call__(self, event: Progress) -> str | None:
        now = event.metrics
        first = self._first = self._first or now
        reward, size = now["reward"], now["observation_size"]
        worst = max(abs(first["reward_min"]), abs(first["reward_max"]))
        if reward < -GROWN * worst < 0:
            return (
                f"rewards drift: {reward:.3g} per step, and none in the first batch was below"
                f" {first['reward_min']:.3g}. Something grows without bound, such as a queue or a"
                " stock: cap it, or let episodes end"
            )
        if size > GROWN * first["observation_size"] > 0 and reward < first["reward"]:
            return (
                f"observations drift: their size is {size:.3g}, after"
                f" {first['observation_size']:.3g} in the first batch, and the reward fell from"
                f" {first['reward']:.3g} to {reward:.3g} per step. Bound what grows, or let"
                " episodes end"
            )
        return None


class Collapse:
    """A policy without randomness that earns less than an earlier part of the run did."""

    def __init__(self, spec: RunSpec, spaces: Spaces) -> None:
        self._begins, self._ends = spec.first_iteration, spec.iterations
        self._spaces = spaces
        self._first: float | None = None
        self._rows: list[tuple[float, float]] = []
        """reward and entropy in the present part"""
        self._part = 0
        self._parts: list[Means] = []

    def __call__(self, event: Progress) -> str | None:
        entropy = event.metrics.get("entropy", math.nan)
        self._first = entropy if self._first is None else self._first
        before = len(self._parts)
        part = PARTS * (event.iteration - 1 - self._begins) // (self._ends - self._begins)
        if part > self._part and self._rows:
            self._close()
        self._part = part
        self._rows.append((event.metrics["reward"], entropy))
        if event.iteration == self._ends:
            self._close()
        if len(self._parts) == before:
            return None
        return self._judge(least_entropy(self._spaces, self._first))

    def _close(self) -> None:
        self._parts.append(means_of(self._rows))
        self._rows = []

    def _judge(self, least: float) -> str | None:
        *earlier, before, last = [*self._parts[:1], *self._parts]
        best = max(earlier, key=lambda part: part.reward, default=last)
        if any(part.entropy > least or not is_worse(part, best) for part in (before, last)):
            return None
        return (
            f"the policy no longer explores (entropy {last.entropy:.2g}) and earns"
            f" {last.reward:.3g} per step, after {best.reward:.3g} earlier in this run. Try a"
            " higher entropy_coefficient, a lower learning_rate or larger batches"
        )


class Contradiction:
    """Evaluations whose average reward is far below that of all batches since the one before.

    Far is a share of the range of all single rewards so far. Deterministic actions earn less than
    drawn ones in some environments, but not by that much. Nothing is said before an environment has
    been trained for as many steps as it is evaluated: until then it is nearer to its start. An
    evaluation that is far above contradicts nothing: it starts anew, maybe with an empty queue.
    """

    def __init__(self, spec: RunSpec, config: Config) -> None:
        _, steps = evaluation_shape(spec.eval_steps)
        self._enough = spec.first_iteration + -(-steps // config.rollout_steps)
        self._rewards: list[float] = []
        self._lowest, self._highest = math.inf, -math.inf
        self._before = False

    def __call__(self, event: Progress) -> str | None:
        now = event.metrics
        self._rewards.append(now["reward"])
        self._lowest = min(self._lowest, now["reward_min"])
        self._highest = max(self._highest, now["reward_max"])
        report = event.evaluation
        if report is None:
            return None
        rewards, self._rewards = self._rewards, []
        lowest, spread = min(rewards), self._highest - self._lowest
        gap, negligible = lowest - report.average_reward, 1e-3 * abs(lowest)
        is_below = report.high < lowest and gap > negligible
        far = gap / max(spread, negligible) if is_below else 0.0
        before, self._before = self._before, far > APART
        if event.iteration < self._enough or not (far > 1 or (before and far > APART)):
            return None
        batches = " to ".join(dict.fromkeys(f"{x:.4g}" for x in (min(rewards), max(rewards))))
        return (
            f"the evaluation contradicts the training: {report.average_reward:.4g} per step"
            f" [{report.low:.4g}, {report.high:.4g}], and {batches} in the batches before it. What"
            " was learned may be unstable, or bad without random actions: compare evaluate with"
            " deterministic=False, and with many more steps"
        )


def means_of(rows: Sequence[tuple[float, float]]) -> Means:
    """The means of rows of reward and entropy."""
    reward, entropy = np.array(rows, float).T
    known = len(reward) >= FEWEST_ROWS
    error = float(reward.std(ddof=1)) / math.sqrt(len(reward)) if known else math.inf
    return Means(float(reward.mean()), error, float(entropy.mean()))


def is_worse(now: Means, best: Means) -> bool:
    """Whether the reward of a part is lower than that of another, for certain and by a share."""
    certain = ERRORS * math.hypot(now.error, best.error)
    return best.reward - now.reward > max(certain, LOST * abs(best.reward))


def least_entropy(spaces: Spaces, first: float) -> float:
    """The entropy of a policy that is next to deterministic; `first` is that of a new one."""
    if spaces.categories:
        return COLLAPSED * sum(math.log(count) for count in spaces.categories)
    return first + spaces.action_size * math.log(COLLAPSED)


class ConstantReward:
    """Rewards that are all equal, so that the average criterion cannot rank policies.

    Where episodes terminate, a reset cost or a limit can; elsewhere nothing can.
    """

    def __init__(self, config: Config) -> None:
        self._watching = isinstance(config, Average)
        self._resets_cost = isinstance(config, Average) and bool(
            config.reset_cost or config.reset_cost_step_size
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
