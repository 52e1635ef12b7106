"""The pictures of docs/theory.md, made again: a few seconds.

python examples/tabular_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longrun.exact.tabular.figures import (
    bound_tightness,
    certified_steps,
    policy_map,
    xi_over_discount,
)
from longrun.exact.tabular.trust_region import trust_region_policy_iteration
from longrun.queueing import MODELS as NETWORKS
from longrun.tabular import MODELS, improvement_bounds, solve

IMAGES = Path(__file__).parents[1] / "docs" / "images"
GARNETS, DISCOUNT = 300, 0.99


def theory() -> None:
    """The constants, how tight the bounds are, and the steps that they allow."""
    river = MODELS["riverswim"]()
    uniform = np.full((river.num_states, river.num_actions), 1 / river.num_actions)
    xi_over_discount(river, uniform, IMAGES / "xi-over-discount.png")
    certified_steps(trust_region_policy_iteration(river), IMAGES / "certified-steps.png")
    rng = np.random.default_rng(0)
    comparisons = []
    for seed in range(GARNETS):
        garnet = MODELS["garnet"](seed=seed)
        old, new = rng.dirichlet(np.ones(garnet.num_actions), (2, garnet.num_states))
        comparisons.append(improvement_bounds(garnet, old, new, DISCOUNT))
    title = f"{GARNETS} garnets of 20 states, two random policies each, discount {DISCOUNT}"
    bound_tightness(comparisons, IMAGES / "bound-tightness.png", title)


def policies() -> None:
    """Optimal policies of queues, drawn over the numbers of customers."""
    for name, model in (
        ("criss-cross", NETWORKS["criss-cross"](regime="BM")),
        ("tandem", NETWORKS["tandem"]()),
    ):
        policy_map(model, solve(model).policy, IMAGES / f"{name}-policy.png")


if __name__ == "__main__":
    theory()
    policies()
    print(f"wrote five pictures to {IMAGES}")
