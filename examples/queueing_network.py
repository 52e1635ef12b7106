"""A queueing network of one's own: who is served next in a clinic?

What one learns from it: to describe a network (`longrun.Network`); to compare a learned policy with
the classical ones and, since three queues are few, with the exact optimum; to draw where the
learned policy differs from the optimal one.

It takes about a minute of processor time. It prints (seeds 0 to 2):

    loads of doctor and X-ray room: 0.80, 0.80
    mean number of patients, exact for up to 30 in each queue:
      c mu                7.805
      last buffer first   9.366
      max weight          7.574
      APO, seed 0         7.076, 0.26 % above the optimum
      APO, seed 1         7.090, 0.47 % above the optimum
      APO, seed 2         7.106, 0.68 % above the optimum
      the optimum         7.058
    the policy of seed 2 beside the optimal one: clinic.png

The optimum serves those who need a picture only when the X-ray room is about to run out of work.
Patients who find a queue full are turned away, and so the optimum is a little larger in a larger
box: 6.977 for up to 20, 7.039 for up to 25.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from longrun import APO, Network, QueueingEnv
from longrun.lab.policy_map.exact_comparison import compare_policies, learned_policy
from longrun.lab.policy_map.picture import policy_map
from longrun.queueing import c_mu, last_buffer_first, max_weight
from longrun.tabular import MDP, evaluate

HURT, ILL, PICTURE = 0, 1, 2
CLINIC = QueueingEnv(
    Network(
        name="clinic",
        arrivals=(0.6, 0.5, 0.0),  # patients of each class who come in an hour
        stations=(
            ((HURT, 1.5), (ILL, 1.25)),  # the doctor's choice; and how many an hour
            ((PICTURE, 0.75),),  # the X-ray room
        ),
        routing=(((PICTURE, 1.0),), (), ()),  # those who are hurt need a picture
        holding_costs=(1.0, 1.0, 1.0),  # the average cost is the mean number of patients
    )
)
CLASSICAL = {"c mu": c_mu, "last buffer first": last_buffer_first, "max weight": max_weight}


def print_classical(mdp: MDP, size: int) -> None:
    """The exact average of each classical policy."""
    for name, make in CLASSICAL.items():
        policy = CLINIC.exact_policy(make(CLINIC), size)
        print(f"  {name:<20}{-evaluate(mdp, policy).gain:.3f}")


def run(given: argparse.Namespace) -> None:
    network = CLINIC.network
    loads = ", ".join(f"{load:.2f}" for load in network.loads())
    print(f"loads of doctor and X-ray room: {loads}")
    print(f"mean number of patients, exact for up to {given.size} in each queue:")
    mdp = CLINIC.exact(given.size)
    print_classical(mdp, given.size)
    for seed in range(given.seed, given.seed + given.seeds):
        agent = APO(
            CLINIC,
            preset="queueing",
            seed=seed,
            num_envs=given.num_envs,  # the preset's 1024 suit a GPU
            rollout_steps=64,
            minibatch_size=given.num_envs * 8,
            learning_rate=2e-3,
            gae_lambda=0.9,  # a choice matters most for the next few events
            hidden_sizes=(32, 32),
        )
        agent.learn(given.steps)
        learned = learned_policy(CLINIC, agent.config, agent.state, given.size)
        found = compare_policies(mdp, learned)
        name = f"APO, seed {seed}"
        print(f"  {name:<20}{-found.learned_gain:.3f}, {found.gap:.2f} % above the optimum")
    print(f"  {'the optimum':<20}{-found.optimal_gain:.3f}")
    policy_map(found, given.out)
    print(f"the policy of seed {seed} beside the optimal one: {given.out}")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--size", type=int, default=30, help="of the exact model's box")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--out", type=Path, default=Path("clinic.png"), help="picture")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    run(parsed())
