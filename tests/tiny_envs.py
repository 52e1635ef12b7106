"""Tiny environments, and the tiny options to train on them.

Worker processes import this module, so it must import neither JAX nor `longrun` at the top.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import gymnasium
import numpy as np
from gymnasium import spaces

TINY: dict[str, Any] = {
    "num_envs": 4,
    "rollout_steps": 16,
    "hidden_sizes": (8,),
    "epochs": 2,
    "minibatch_size": 32,
    "normalize_observations": True,
    "action_bounds": "clip",  # most of the environments below refuse others
    "learning_rate_decay": False,  # several calls of `learn` equal one
}
ITERATION = 64
"""steps of one iteration with these options"""
TINY_FLAGS = [
    *("--num-envs", "4", "--rollout-steps", "16", "--hidden-sizes", "8", "--epochs", "2"),
    *("--minibatch-size", "32", "--normalize-observations", "--action-bounds", "clip", "--quiet"),
    "--no-learning-rate-decay",
]


class Drift(gymnasium.Env[Any, Any]):
    """A point that an action pushes and noise moves. Observed: where it is, and the time.

    An episode terminates when the point leaves [-wall, wall] and is truncated after `limit` steps;
    by default it never ends. Actions outside the space are refused, unless it is `forgiving`.
    `notes` is a folder where each process that makes one leaves a file named by its process id.
    """

    def __init__(
        self,
        limit: float = math.inf,
        wall: float = math.inf,
        discrete: bool = False,
        pause: float = 0.0,
        reward_scale: float = 1.0,
        forgiving: bool = False,
        notes: Path | str | None = None,
    ) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = (
            spaces.Discrete(3, start=-1) if discrete else spaces.Box(-0.5, 0.5, (1,), np.float32)
        )
        self.limit, self.wall, self.pause, self.reward_scale = limit, wall, pause, reward_scale
        self.forgiving = forgiving
        self.place, self.time = 0.0, 0
        if notes is not None:
            Path(notes, str(os.getpid())).touch()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place, self.time = float(self.np_random.normal()), 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert self.forgiving or self.action_space.contains(action), action
        if self.pause:
            time.sleep(self.pause)
        self.time += 1
        push = float(np.asarray(action).reshape(-1)[0])
        self.place += 0.3 * push + 0.2 * float(self.np_random.normal())
        reward = self.reward_scale * (push - self.place**2)
        return self.observe(), reward, abs(self.place) > self.wall, self.time >= self.limit, {}

    def observe(self) -> Any:
        return np.array([self.place, 0.1 * self.time], np.float32)


GATE = "LONGRUN_TEST_GATE"
"""environment variable: a file that closes the gate as long as it is there"""


class Gated(Drift):
    """Drift that stops in its 60th step until the gate is open, and is slow from there on.

    So a run is in its fourth iteration of `TINY`, however fast or slow the machine is, while a test
    does something to it; and has a second left to hear of it when the gate is opened.
    """

    taken: ClassVar[WeakKeyDictionary[Any, int]] = WeakKeyDictionary()
    """steps of each environment; not an attribute, since a resumed run would restore that"""

    def step(self, action: Any) -> Any:
        self.taken[self] = self.taken.get(self, 0) + 1
        gate = os.environ.get(GATE)
        if gate and self.taken[self] >= 60:
            time.sleep(4e-3)
            while os.path.exists(gate):
                time.sleep(0.02)
        return super().step(action)


class Counter(gymnasium.Env[Any, Any]):
    """Observes (episode, step), both counted; pays the step; ends after `length` steps."""

    def __init__(self, length: int, terminates: bool, seen: list[Any] | None = None) -> None:
        self.observation_space = spaces.Box(0, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-0.5, 0.5, (1,), np.float32)
        self.length, self.terminates = length, terminates
        self.episode, self.time = 0, 0
        self.seen = [] if seen is None else seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode, self.time = self.episode + 1, 0
        return np.array([self.episode, 0], np.float32), {}

    def step(self, action: Any) -> Any:
        self.seen.append(action)
        self.time += 1
        ends = self.time >= self.length
        obs = np.array([self.episode, self.time], np.float32)
        return obs, float(self.time), ends and self.terminates, ends and not self.terminates, {}


class Faulty(Drift):
    """Goes wrong in step `at` of the episode that was reset with the seed `victim` (None: in all).

    Faults: raise, kill, exit, hang, obs (NaN), reward (NaN), shape, jax (raises in a process where
    JAX was imported); and in reset itself: reset (ConnectionResetError), first_obs (NaN).
    """

    def __init__(self, fault: str, victim: int | None = None, at: int = 5, **others: Any) -> None:
        super().__init__(**others)
        self.fault, self.victim, self.at = fault, victim, at
        self.is_victim = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        obs, info = super().reset(seed=seed)
        self.is_victim = self.victim in (None, seed)
        if self.is_victim and self.fault == "reset":
            raise ConnectionResetError("the simulator hung up")
        if self.is_victim and self.fault == "first_obs":
            obs[0] = np.nan
        return obs, info

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        if self.is_victim and self.time == self.at:
            if self.fault == "raise":
                raise ArithmeticError("the motor jammed")
            if self.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "exit":
                os._exit(7)
            if self.fault == "hang":
                time.sleep(600)
            if self.fault == "jax" and "jax" in sys.modules:
                raise ImportError("JAX was imported here")
            if self.fault == "obs":
                obs[1] = np.nan
            if self.fault == "reward":
                reward = math.nan
            if self.fault == "shape":
                obs = np.zeros(3, np.float32)
        return obs, reward, *rest


class Sampler(gymnasium.Env[Any, Any]):
    """Any two spaces: random observations, and an error for an action outside its space."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        return self.observation_space.sample(), float(self.np_random.normal()), False, False, {}


class Careless(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper as most people write them: Gymnasium cannot make it again from a specification."""

    def __init__(self, env: gymnasium.Env[Any, Any], limit: int) -> None:
        super().__init__(env)
        self.env.unwrapped.limit = limit  # type: ignore[attr-defined]


MORTAL = partial(Drift, limit=9, wall=1.5)
"""Terminations and time limits, in every iteration"""
MORTAL_DISCRETE = partial(Drift, limit=9, wall=1.5, discrete=True)
ENDLESS = partial(Drift)

gymnasium.register("Drift-v0", "tiny_envs:Drift", kwargs={"limit": 23, "wall": 1.5})
gymnasium.register(
    "SlowDrift-v0", "tiny_envs:Drift", kwargs={"limit": 23, "wall": 1.5, "pause": 4e-3}
)
gymnasium.register("GatedDrift-v0", "tiny_envs:Gated", kwargs={"limit": 23, "wall": 1.5})
gymnasium.register("EndlessDrift-v0", "tiny_envs:Drift")
gymnasium.register(
    "KindDrift-v0", "tiny_envs:Drift", kwargs={"limit": 23, "wall": 1.5, "forgiving": True}
)


def bits(tree: Any) -> dict[str, tuple[Any, ...]]:
    """Every leaf of a snapshot or state, by name, in a form that compares to the bit."""
    import jax

    leaves = [
        (jax.tree_util.keystr(path), np.asarray(leaf))
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]
    return {name: (leaf.dtype, leaf.shape, leaf.tobytes()) for name, leaf in leaves}


def is_running(pid: int | str) -> bool:
    """Is the process there, zombies not counted?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Any, seconds: float = 120.0) -> None:
    """Poll; raise TimeoutError in the end."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"still not true after {seconds} s")
        time.sleep(0.02)
