"""Learning under limits on costs against the exact constrained optimum.

python benchmarks/limits.py [--algorithm atrpo] [--seeds 5] [--problem busy]

Writes benchmarks/results/limits.csv: how far the last policy's exact gain is from the optimum, and
how far its exact costs are above their limits, in percent of them. About a quarter of an hour.
"""

import argparse
import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from longrun import APO, ATRPO, PPO, TRPO
from longrun.envs.native import Environment, Step
from longrun.envs.native.access_control import AccessControl
from longrun.envs.spaces import Spaces
from longrun.learn.acting import policy_outputs, read
from longrun.tabular import MDP, evaluate, solve
from longrun.tabular.models.classic import access_control, garnet

RESULTS = Path(__file__).parent / "results" / "limits.csv"
ALGORITHMS = {"apo": APO, "atrpo": ATRPO, "ppo": PPO, "trpo": TRPO}
OPTIONS: dict[str, Any] = {
    "num_envs": 128,
    "rollout_steps": 256,
    "minibatch_size": 4096,
    "hidden_sizes": (16, 16),
    "epochs": 4,
    "learning_rate": 3e-3,
    "gae_lambda": 0.97,
}
"""Chosen on seeds 100 to 105, on access control."""
OF_ALGORITHM: dict[str, dict[str, Any]] = {
    "atrpo": {"kl_limit": 0.003, "limit_approach": 0.2},
    "trpo": {"kl_limit": 0.003, "limit_approach": 0.2},
    "apo": {"normalize_advantages": True, "entropy_coefficient": 0.0, "epochs": 10},
    "ppo": {"normalize_advantages": True, "entropy_coefficient": 0.0, "epochs": 10},
}


@dataclass(frozen=True, eq=False)
class Table(Environment):
    """A finite model, observed as a one-hot vector."""

    mdp: MDP
    terminates = False

    @property
    def name(self) -> str:
        return self.mdp.name

    @property
    def spaces(self) -> Spaces:
        return Spaces(self.mdp.num_states, 1, (self.mdp.num_actions,))

    def observation(self, state: jax.Array) -> jax.Array:
        return jax.nn.one_hot(state, self.mdp.num_states)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        state = jax.random.choice(key, self.mdp.num_states, p=jnp.asarray(self.mdp.initial))
        return state, self.observation(state)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        mdp, chosen = self.mdp, action[0]
        kernel = np.asarray(mdp.kernel.toarray() if mdp.is_sparse else mdp.kernel)
        law = jnp.asarray(kernel)[chosen * mdp.num_states + state]
        after = jax.random.choice(key, mdp.num_states, p=law)
        costs = {name: jnp.asarray(cost)[state, chosen] for name, cost in mdp.costs.items()}
        reward = jnp.asarray(mdp.rewards)[state, chosen]
        return Step(after, self.observation(after), reward, False, costs)


@dataclass
class Problem:
    """An environment, its exact model, limits, and the length of a run."""

    env: Any
    mdp: MDP
    limits: dict[str, float]
    iterations: int
    options: dict[str, Any] = field(default_factory=dict)


def problems() -> dict[str, Problem]:
    access, model = AccessControl(), access_control()
    random = garnet(states=20, actions=4, branching=5, seed=1)
    return {
        "busy": Problem(access, model, {"busy": 6.0}, 120),
        "rejected": Problem(access, model, {"rejected": 0.5}, 120),
        "two": Problem(access, model, {"busy": 6.0, "rejected_3": 0.13}, 120),
        "garnet": Problem(Table(random), random, {"cost": 0.35}, 200, {"kl_limit": 0.01}),
    }


def learned_table(env: Any, agent: Any, states: Any) -> Any:
    """[S, A] the probabilities of the learned policy."""
    obs = jax.vmap(env.observation)(states)
    seen = read(agent.config, env.spaces, agent.state.obs_moments, obs)
    policy = agent.state.params.policy
    outputs = policy_outputs(agent.config, env.spaces, policy, seen.features, seen.mask)
    table = np.asarray(jax.nn.softmax(outputs, -1), float)
    return table / table.sum(1, keepdims=True)


def states_of(problem: Problem) -> Any:
    """The states of the environment in the order of the exact model."""
    if isinstance(problem.env, Table):
        return jnp.arange(problem.mdp.num_states)
    sides = [np.arange(side) for side in problem.mdp.shape]
    return jnp.asarray(np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, len(sides)))


def run(name: str, problem: Problem, algorithm: str, seed: int) -> dict[str, Any]:
    """A row of the table."""
    best = solve(problem.mdp, limits=problem.limits)
    options = {**OPTIONS, **OF_ALGORITHM.get(algorithm, {}), **problem.options}
    agent = ALGORITHMS[algorithm](problem.env, seed=seed, limits=problem.limits, **options)
    steps = problem.iterations * agent.config.steps_per_iteration
    log: list[Any] = []
    agent.learn(steps, progress_bar=False, on_log=lambda p: log.append(p.metrics))
    policy = learned_table(problem.env, agent, states_of(problem))
    gain = evaluate(problem.mdp, policy).gain
    above = {
        cost: evaluate(problem.mdp.with_rewards(problem.mdp.costs[cost]), policy).gain / limit - 1
        for cost, limit in problem.limits.items()
    }
    late = log[-len(log) // 4 :]
    return {
        "problem": name,
        "algorithm": algorithm,
        "seed": seed,
        "steps": steps,
        "exact gain": round(best.gain, 5),
        "gain below optimum %": round(100 * (1 - gain / best.gain), 2),
        "costs above limit %": " ".join(f"{100 * x:.2f}" for x in above.values()),
        "multipliers": " ".join(
            f"{np.mean([m[f'multiplier_{cost}'] for m in late]):.3g}" for cost in problem.limits
        ),
        "exact multipliers": " ".join(f"{best.multipliers[cost]:.3g}" for cost in problem.limits),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=list(ALGORITHMS), nargs="+", default=["atrpo"])
    parser.add_argument("--problem", choices=list(problems()), nargs="+", default=list(problems()))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--seed",
        type=int,
        default=15,
        help="the first seed; lower ones were seen when the options were chosen",
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    rows = []
    for name, problem in problems().items():
        for algorithm in given.algorithm if name in given.problem else ():
            for seed in range(given.seed, given.seed + given.seeds):
                rows.append(run(name, problem, algorithm, seed))
                print(*rows[-1].values(), sep=", ", flush=True)
                write(given.out, rows)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
