"""The problems of `limits.py`: an environment, its exact model, and a limit that binds.

Environment and model have the same finite states. Queueing networks have buffers, so that there is
no box around them to be chosen: the model is that of the environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from longrun.exact.tabular.models import access_control, garnet
from longrun.learning.envs.native import Environment, Step
from longrun.learning.envs.native.control import AccessControl
from longrun.learning.envs.spaces import Spaces
from longrun.learning.learn.acting import policy_outputs, read
from longrun.queueing import QueueingEnv, n_model, tandem
from longrun.tabular import MDP


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

    @cached_property
    def below(self) -> NDArray[np.float32]:
        """[A * S, S - 1] the probability of each state but the last, or an earlier one."""
        kernel = self.mdp.kernel.toarray() if self.mdp.is_sparse else self.mdp.kernel
        return np.cumsum(kernel, axis=1)[:, :-1].astype(np.float32)

    def observation(self, state: jax.Array) -> jax.Array:
        return jax.nn.one_hot(state, self.mdp.num_states)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        state = jax.random.choice(key, self.mdp.num_states, p=jnp.asarray(self.mdp.initial))
        return state, self.observation(state)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        mdp, chosen = self.mdp, action[0]
        passed = jax.random.uniform(key) >= jnp.asarray(self.below)[chosen * mdp.num_states + state]
        after = passed.sum()
        costs = {name: jnp.asarray(cost)[state, chosen] for name, cost in mdp.costs.items()}
        reward = jnp.asarray(mdp.rewards)[state, chosen]
        return Step(after, self.observation(after), reward, False, costs)


@dataclass
class Problem:
    """An environment, its exact model, limits, and the length of a run."""

    env: Any
    mdp: MDP
    limits: dict[str, float]
    options: dict[str, Any] = field(default_factory=dict)
    """beside those of the algorithm, where one set does not suit all problems"""
    of_multipliers: dict[str, Any] = field(default_factory=dict)
    """those of APO and PPO alone"""

    @property
    def states(self) -> NDArray[np.int32]:
        """[S, ...] the states of the environment in the order of the exact model."""
        if isinstance(self.env, Table):
            return np.arange(self.mdp.num_states, dtype=np.int32)
        return np.indices(self.mdp.shape, np.int32).reshape(len(self.mdp.shape), -1).T


LARGE = {"num_envs": 2048}
"""For networks: with 1024 environments the noise of a batch is 3 to 4 % of the limit there, with
512 on the other models 0.5 %."""
IN_LARGE = {"minibatch_size": 16384}
"""Of APO and PPO with so many; the trust region fits values with those of the other models."""


def problems() -> dict[str, Problem]:
    """By the names that `limits_results.py` describes."""
    access, model = AccessControl(), access_control()
    return {
        "busy": Problem(access, model, {"busy": 6.0}),
        "rejected": Problem(access, model, {"rejected": 0.5}),
        "both": Problem(access, model, {"busy": 6.5, "rejected_2": 0.2}),
        # Its actions differ little in value: the noise of their advantages has to be smaller.
        "n-model": network(
            n_model(load=0.6, holding_costs=(1.0, 0.0), buffer=10),
            {"customers_2": 0.6},
            LARGE | {"gae_lambda": 0.9},
            IN_LARGE,
        ),
        "tandem": network(
            tandem(arrival_rate=0.8, holding_costs=(1.0, 2.0), buffer=3),
            {"blocked": 0.18},
            LARGE,
            IN_LARGE,
        ),
        "garnet-20": table(garnet(states=20, actions=4, branching=5, seed=1), {"cost": 0.35}),
        "garnet-30": table(garnet(states=30, actions=3, branching=3, seed=2), {"cost": 0.35}),
    }


def network(env: QueueingEnv, limits: dict[str, float], *options: Any) -> Problem:
    return Problem(env, env.exact(), limits, *options)


def table(mdp: MDP, limits: dict[str, float]) -> Problem:
    return Problem(Table(mdp), mdp, limits, {"hidden_sizes": (32,)})  # enough for one-hot vectors


def learned_table(problem: Problem, agent: Any) -> NDArray[np.float64]:
    """[S, A] the probabilities of the learned policy, of joint actions where several decide."""
    spaces = problem.env.spaces
    obs = jax.vmap(problem.env.observation)(problem.states)
    seen = read(agent.config.acting, spaces, agent.state.obs_moments, obs)
    policy = agent.state.params.policy
    outputs = policy_outputs(agent.config.acting, spaces, policy, seen.features, seen.mask)
    joint = np.ones((len(outputs), 1))
    for each in jnp.split(outputs, np.cumsum(spaces.categories)[:-1], axis=1):
        law = np.asarray(jax.nn.softmax(each, axis=1), float)
        law /= law.sum(1, keepdims=True)
        joint = (joint[:, :, None] * law[:, None, :]).reshape(len(joint), -1)
    return joint
