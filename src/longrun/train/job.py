"""What both loops, host and device, are given and report."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import jax

from longrun.config import Config, whole_number
from longrun.envs.actions import require_bounds
from longrun.envs.factories import EnvLike, env_factory, env_name, make_env
from longrun.envs.native.lookup import native_env
from longrun.envs.native.protocol import Environment
from longrun.envs.native.protocol_check import require_sound
from longrun.envs.native.to_gymnasium import action_space, observation_space
from longrun.envs.spaces import Array, Spaces, describe
from longrun.errors import InputError
from longrun.learn import learner
from longrun.learn.compilation import use_compilation_cache
from longrun.learn.types import TrainState
from longrun.train.evaluation import EvaluationReport
from longrun.train.host.episodes import no_episodes

AnyEnv = EnvLike | Environment
"""An id or env string, a Gymnasium environment, a function that makes one, or a JAX-native one."""


def name_of(env: AnyEnv) -> str:
    """What run folders and checkpoints call the environment."""
    return env.name if isinstance(env, Environment) else env_name(env)


class Opened(NamedTuple):
    """An environment that was looked at, ready for a job; a JAX-native one is made, once."""

    env: AnyEnv
    spaces: Spaces
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]


def open_env(env: AnyEnv) -> Opened:
    """Make the environment to see what it is, or a ValueError that says what is wrong with it."""
    native = native_env(env)
    if native is not None:
        return _opened(native)
    assert not isinstance(env, Environment)
    made: object = make_env(env_factory(env))
    if isinstance(made, Environment):  # of a class or a function that makes one
        return _opened(made)
    if not isinstance(made, gymnasium.Env):
        raise InputError(
            f"env={env!r} makes {type(made).__name__}, which is no gymnasium.Env or Environment"
        )
    try:
        return Opened(env, describe(made), made.observation_space, made.action_space)
    finally:
        made.close()


def _opened(native: Environment) -> Opened:
    require_sound(native)
    spaces = native.spaces
    return Opened(native, spaces, observation_space(spaces), action_space(spaces))


@dataclass(frozen=True)
class Job:
    """A run: replicas that differ in seed and numeric options only."""

    env: AnyEnv
    configs: Sequence[Config]
    """one for each replica"""
    seeds: Sequence[int]
    """one for each replica"""
    begins: int
    """iterations that every replica had behind it when the run began"""
    iterations: int
    """where every replica ends, counted from its very beginning"""
    num_workers: int
    eval_every: int = 0
    """iterations between evaluations; 0 for none"""
    eval_steps: int = 10_000
    """steps of an evaluation, shared by up to 10 environments"""

    def evaluates(self, iteration: int) -> bool:
        """After `iteration` iterations are done?"""
        return self.eval_every > 0 and (
            iteration % self.eval_every == 0 or iteration == self.iterations
        )

    def progress(self, iteration: int) -> float:
        """The part of the run that is over before this iteration, for the learning rate."""
        return (iteration - self.begins) / (self.iterations - self.begins)


class Snapshot(NamedTuple):
    """All that a replica needs to go on."""

    state: TrainState
    environments: Mapping[str, Array]
    """what brings the environments back: named arrays; none before the first step on a device"""


class Event(NamedTuple):
    """What a replica reports after an iteration."""

    replica: int
    iteration: int
    metrics: dict[str, float]
    evaluation: EvaluationReport | None


Listen = Callable[[Sequence[Event], Mapping[int, Snapshot]], bool]
"""Hears events in order and where replicas stand after them; False stops the run."""


@dataclass
class Seconds:
    """Where a run's time went, mean over replicas; collecting overlaps with fitting the value.

    On a device everything is one program, whose time is `update`.
    """

    collect: float = 0.0
    update: float = 0.0
    evaluate: float = 0.0


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_job(
    env: AnyEnv,
    configs: Sequence[Config],
    seeds: Sequence[int],
    steps: int,
    *,
    done: int = 0,
    num_workers: int | None = None,
    eval_every: int | None = None,
    eval_steps: int = 10_000,
) -> Job:
    """A job in iterations from one in steps, both rounded up; `done` iterations come before it.

    `eval_every` None stands for up to 20 evaluations, 0 for none.
    """
    steps = whole_number("steps", steps, 1)
    eval_steps = whole_number("eval_steps", eval_steps, 1)
    eval_every = None if eval_every is None else whole_number("eval_every", eval_every)
    num_workers = None if num_workers is None else whole_number("num_workers", num_workers)
    per_iteration = configs[0].steps_per_iteration
    iterations = -(-steps // per_iteration)
    rare = max(-(-iterations // 20), 3 * eval_steps // per_iteration)  # 1/4 of all steps at most
    every = rare if eval_every is None else -(-eval_every // per_iteration)
    workers = available_cores() if num_workers is None else num_workers
    return Job(env, configs, seeds, done, done + iterations, workers, every, eval_steps)


def fresh_snapshot(env: AnyEnv, config: Config, spaces: Spaces, seed: int) -> Snapshot:
    """Before the first step."""
    require_bounds(config.bounded_mean, spaces)
    use_compilation_cache()
    state = learner.init(config, spaces, jax.random.key(seed))
    if isinstance(env, Environment):
        return Snapshot(state, {})
    return Snapshot(state, no_episodes(config.num_envs, spaces)._asdict())
