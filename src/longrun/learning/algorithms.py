"""The four algorithms as users meet them: `APO`, `PPO`, `ATRPO`, `TRPO`."""

from __future__ import annotations

from longrun.learning.agent import Agent
from longrun.learning.options.config import kind_of


class APO(Agent):
    """Average Policy Optimization (Ma et al., 2021): average criterion, clipped step."""

    algorithm = "apo"


class PPO(Agent):
    """Proximal Policy Optimization: discounted criterion, clipped step."""

    algorithm = "ppo"


class ATRPO(Agent):
    """Average-reward TRPO: average criterion, trust-region step."""

    algorithm = "atrpo"


class TRPO(Agent):
    """Trust Region Policy Optimization: discounted criterion, trust-region step."""

    algorithm = "trpo"


AGENTS: dict[str, type[Agent]] = {kind.algorithm: kind for kind in (APO, PPO, ATRPO, TRPO)}


def agent_of(algorithm: str) -> type[Agent]:
    """The agent of an algorithm; one is made for those that are defined elsewhere."""
    return AGENTS.get(algorithm) or type(
        kind_of(algorithm).__name__, (Agent,), {"algorithm": algorithm}
    )
