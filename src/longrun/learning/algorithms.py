"""The four algorithms as users meet them: `APO`, `PPO`, `ATRPO`, `TRPO`."""

from __future__ import annotations

from typing import Never, Unpack

from longrun.learning.agent import Agent
from longrun.learning.options.arguments import (
    APOArguments,
    ATRPOArguments,
    PPOArguments,
    TRPOArguments,
)
from longrun.learning.options.config import kind_of
from longrun.learning.train.open_run import AnyEnv


class APO(Agent):
    """Average Policy Optimization (Ma et al., 2021): average criterion, clipped step."""

    algorithm = "apo"

    def __init__(self, env: AnyEnv, *others: Never, **arguments: Unpack[APOArguments]) -> None:
        super().__init__(env, *others, **arguments)


class PPO(Agent):
    """Proximal Policy Optimization: discounted criterion, clipped step."""

    algorithm = "ppo"

    def __init__(self, env: AnyEnv, *others: Never, **arguments: Unpack[PPOArguments]) -> None:
        super().__init__(env, *others, **arguments)


class ATRPO(Agent):
    """Average-reward TRPO: average criterion, trust-region step."""

    algorithm = "atrpo"

    def __init__(self, env: AnyEnv, *others: Never, **arguments: Unpack[ATRPOArguments]) -> None:
        super().__init__(env, *others, **arguments)


class TRPO(Agent):
    """Trust Region Policy Optimization: discounted criterion, trust-region step."""

    algorithm = "trpo"

    def __init__(self, env: AnyEnv, *others: Never, **arguments: Unpack[TRPOArguments]) -> None:
        super().__init__(env, *others, **arguments)


AGENTS: dict[str, type[Agent]] = {kind.algorithm: kind for kind in (APO, PPO, ATRPO, TRPO)}


def agent_of(algorithm: str) -> type[Agent]:
    """The agent of an algorithm; one is made for those that are defined elsewhere."""
    return AGENTS.get(algorithm) or type(
        kind_of(algorithm).__name__, (Agent,), {"algorithm": algorithm}
    )
