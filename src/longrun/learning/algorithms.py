"""The four algorithms as users meet them: `APO`, `PPO`, `ATRPO`, `TRPO`."""

from __future__ import annotations

from longrun.learning.agent import Agent


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
