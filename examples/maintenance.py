"""When should a machine be serviced? APO against discounted PPO, five seeds each: two minutes.

A service takes about 40 hours, a repair about 3000. The best policy is known exactly here. So is
the best one for a discount of 0.99: never to service the machine, and PPO learns just that. APO has
no discount to choose and learns the best policy, or nearly so: ten more seeds in
results/maintenance-demo earn 93 to 100 % of the best possible.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path

import numpy as np
from maintenance_picture import Learned, draw
from numpy.typing import NDArray

from longrun import APO, PPO
from longrun.cli import main
from longrun.lab.policy_map.exact_comparison import learned_policy
from longrun.lab.results.read import read_metrics
from longrun.learning.envs.native.control import Maintenance
from longrun.tabular import MDP, evaluate, solve

SETTING = (
    "--env jax:maintenance --preset queueing --num-envs 64 --rollout-steps 128"
    " --minibatch-size 1024 --learning-rate 1e-3 --gae-lambda 0.99 --hidden-sizes 32 32 --no-eval"
)
AGENTS = {"apo": APO, "ppo": PPO}
DISCOUNTS = (0.99, 0.999)
STORY = """\
A machine earns 1 in each hour that it runs. After about 100 hours it is worn out, and a worn-out
machine runs for another 250 hours, on average, until it breaks. A service takes about 40 hours, a
repair about 3000. When should the machine be serviced?
"""
NEXT = """
What to try next (these commands are in .venv/bin):
  longrun map {apo} --out policy.png        the learned policy beside the optimal one
  longrun solve maintenance                 the exact answer, certified
  longrun train apo --env jax:maintenance?repair_time=100 --help
  python examples/swimmer.py                the same comparison on a MuJoCo robot, some minutes"""


def run(given: argparse.Namespace) -> int:
    folder: Path = given.out or Path("runs") / time.strftime("maintenance-%Y%m%d-%H%M%S")
    mdp, started = Maintenance().model, time.perf_counter()
    best = solve(mdp)
    print(STORY)
    print(f"Exact answer: {when_serviced(best.policy)}. That earns {best.gain:.4f} an hour.")
    for discount in DISCOUNTS:
        policy = discounted_optimum(mdp, discount)
        share = evaluate(mdp, policy).gain / best.gain
        print(
            f"The exact optimum for a discount of {discount}: {when_serviced(policy)}."
            f" In the long run that earns {share:.0%} of it."
        )
    common = f"{SETTING} --steps {given.steps} --seed {given.seed} --seeds {given.seeds}"
    grid = f"--grid discount={','.join(map(str, DISCOUNTS))}"
    for command in (
        f"train apo {common} --out {folder / 'apo'}",
        f"train ppo {grid} {common} --out {folder / 'ppo'}",
    ):
        print(f"\nlongrun {command}", flush=True)
        if status := main(command.split()):
            return status
    learned = read_learned(folder, mdp)
    write_results(learned, best.gain, folder / "results.csv")
    picture = folder / "maintenance.png"
    draw(learned, mdp, best.gain, evaluate(mdp, discounted_optimum(mdp, 0.99)).gain, picture)
    print_table(learned, best.gain)
    print(f"\npicture: {picture}   (all of it took {time.perf_counter() - started:.0f} s)")
    print(NEXT.format(apo=folder / "apo"))
    return 0


def discounted_optimum(mdp: MDP, discount: float) -> NDArray[np.intp]:
    """[S] the policy that no action improves on under a discount, by policy iteration."""
    policy = np.zeros(mdp.num_states, np.intp)
    while True:
        advantage = evaluate(mdp, policy, discount).advantage
        better = np.where(advantage.max(1) > 1e-9, advantage.argmax(1), policy)
        if (better == policy).all():
            return policy
        policy = better


def when_serviced(policy: NDArray[np.intp]) -> str:
    """A policy [S] in words; there is nothing to decide in the last two states."""
    levels = len(policy) - 3
    wear = np.flatnonzero(policy[: levels + 1])
    if not len(wear):
        return "never service it"
    return "service it when worn out" if wear[0] == levels else f"service it at wear {wear[0]}"


def read_learned(folder: Path, mdp: MDP) -> list[Learned]:
    """The training curve, the last policy and its exact gain, for each algorithm and seed."""
    learned = []
    for setting in read_metrics(folder, ["reward"]):
        for column, replica in enumerate(setting.replicas):
            agent = AGENTS[replica.run.name].load(replica.run, replica=replica.index)
            policy = learned_policy(Maintenance(), agent.config, agent.state)
            discount = getattr(agent.config, "discount", None)
            label = "APO" if discount is None else f"PPO {discount:g}"
            curve = setting.values["reward"][:, column]
            gain = evaluate(mdp, policy).gain
            learned.append(Learned(label, replica.seed, setting.steps, curve, policy, gain))
    return learned


def print_table(learned: list[Learned], best: float) -> None:
    """A row for each algorithm, a column for each seed."""
    seeds = sorted({each.seed for each in learned})
    print("\nLong-run reward of each learned policy (exact), in percent of the best possible:\n")
    print(f"{'seed':<10}" + "".join(f"{seed:>6}" for seed in seeds) + "   policies")
    for label in dict.fromkeys(each.label for each in learned):
        row = sorted((each for each in learned if each.label == label), key=lambda each: each.seed)
        words = ", ".join(dict.fromkeys(when_serviced(each.policy) for each in row))
        print(f"{label:<10}" + "".join(f"{100 * e.gain / best:6.0f}" for e in row) + f"   {words}")
    print(
        "\nA discount of 0.99 counts about the next 100 hours, and the repair takes 3000. Which"
        "\ndiscount is large enough depends on the problem; the average reward has none to choose."
    )


def write_results(learned: list[Learned], best: float, path: Path) -> None:
    """A row for each algorithm and seed."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["algorithm", "seed", "steps", "policy", "gain", "percent_of_optimum"])
        for each in learned:
            result = when_serviced(each.policy), f"{each.gain:.6f}", f"{100 * each.gain / best:.2f}"
            writer.writerow([each.label, each.seed, int(each.steps[-1]), *result])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="how many (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="the first one (default: 0)")
    parser.add_argument("--steps", type=int, default=1_500_000, help="of each (default: 1500000)")
    parser.add_argument("--out", type=Path, help="a new folder (default: under runs/)")
    sys.exit(run(parser.parse_args()))
