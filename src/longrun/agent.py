"""The four algorithms as users meet them: learn, predict, evaluate, save, load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import spaces as gym_spaces

from longrun.config import make_config, whole_number
from longrun.envs.actions import as_given
from longrun.envs.env_strings import with_args
from longrun.envs.factories import require_id
from longrun.envs.native.protocol import Environment
from longrun.envs.numpy_policy import NumpyPolicy, draw_noise
from longrun.envs.spaces import action_reader, observation_writer
from longrun.errors import InputError
from longrun.train import checkpoint
from longrun.train.checkpoint import Checkpoint
from longrun.train.device import loop as device_loop
from longrun.train.evaluation import EvaluationReport
from longrun.train.host import loop as host
from longrun.train.host.replica import flat_weights
from longrun.train.job import AnyEnv, Job, Snapshot, fresh_snapshot, make_job, name_of, open_env
from longrun.train.progress import OnLog, require_tensorboard
from longrun.train.run_folder import RunFolder
from longrun.train.session import Session, create_folder


class Agent:
    """A policy for one environment, and how it is learnt. Use `APO`, `PPO`, `ATRPO` or `TRPO`.

    `env` is a Gymnasium id, an environment (which is copied, never stepped) or a function that
    makes one; or a JAX-native environment or its string ('jax:criss-cross', 'brax:ant', ...), which
    trains inside one compiled program. `env_args` are arguments for an environment named by a
    string. `num_workers` processes simulate Gymnasium environments, by default one for each core; 0
    simulates in this process. All other options are those of the algorithm, the fields of its
    dataclass in `longrun.config` (`APOConfig`, ...); `longrun train apo --help` explains them.
    """

    algorithm: ClassVar[str]

    def __init__(
        self,
        env: AnyEnv,
        *,
        seed: int = 0,
        preset: str = "paper",
        env_args: Mapping[str, Any] | None = None,
        num_workers: int | None = None,
        **options: Any,
    ) -> None:
        seed = whole_number("seed", seed)
        if num_workers is not None:
            num_workers = whole_number("num_workers", num_workers)
        self.env = env if env_args is None else with_args(env, env_args)
        self.seed = seed
        self.num_workers = num_workers
        self.config = make_config(self.algorithm, preset, **options)
        opened = open_env(self.env)
        self._opened, self.spaces = opened.env, opened.spaces
        self.observation_space = opened.observation_space
        self.action_space = opened.action_space
        self._snapshot = fresh_snapshot(self._opened, self.config, self.spaces, seed)
        self._policy: tuple[Snapshot, NumpyPolicy] | None = None
        self._log_dir: Path | None = None
        self._predictions = np.random.default_rng(seed)

    def __repr__(self) -> str:
        name = name_of(self._opened)
        return f"{type(self).__name__}({name!r}, seed={self.seed}, steps_={self.steps_})"

    @property
    def steps_(self) -> int:
        """Environment steps learnt from so far."""
        return int(self._snapshot.state.iteration) * self.config.steps_per_iteration

    @property
    def gain_(self) -> float:
        """The learned long-run average reward, net of reset costs."""
        if self.algorithm in ("ppo", "trpo"):
            raise AttributeError(
                f"{self.algorithm.upper()} is discounted and learns no gain; see"
                " evaluate().average_reward"
            )
        return float(self._snapshot.state.criterion.gain)

    def learn(
        self,
        steps: int,
        *,
        log_dir: str | Path | None = None,
        eval_every: int | None = None,
        eval_steps: int = 10_000,
        on_log: OnLog | None = None,
        progress_bar: bool | None = None,
        tensorboard: bool = False,
    ) -> Self:
        """Learn from `steps` more environment steps, rounded up to whole iterations.

        With `log_dir` the run is written down there: metrics, evaluations (every `eval_every`
        steps, by default 20 times; 0 for never), checkpoints. `on_log(progress)` is called after
        each iteration and may return False to stop; for a JAX-native environment it hears of the
        iterations of a call, about a second's worth, when that is done. Calling `learn` again goes
        on where it ended (a decaying learning rate starts anew).
        """
        if tensorboard:
            require_tensorboard(log_dir)
        done = int(self._snapshot.state.iteration)
        if eval_every is None and log_dir is None:
            eval_every = 0
        job = make_job(
            self._opened,
            [self.config],
            [self.seed],
            steps,
            done=done,
            num_workers=self.num_workers,
            eval_every=eval_every,
            eval_steps=eval_steps,
        )
        folder = None if log_dir is None else self._open_folder(Path(log_dir), job)
        session = Session(job, self.spaces, [self._snapshot], folder, on_log)
        try:
            session.run(progress_bar, tensorboard)
        finally:
            self._snapshot = session.snapshots[0]
        return self

    def predict(self, obs: Any, deterministic: bool = True) -> tuple[Any, None]:
        """The action for an observation; or one for each row of a batch of Box observations.

        It is what the environment would be given in training: with `action_bounds="raw"` it may
        lie beyond the action space.
        """
        policy = self._acting_policy()
        write = observation_writer(self.observation_space)
        batched = (
            isinstance(self.observation_space, gym_spaces.Box)
            and np.ndim(obs) == len(self.observation_space.shape) + 1
        )
        rows = np.zeros((len(obs) if batched else 1, self.spaces.observation_size), np.float32)
        for row, one in zip(rows, obs if batched else [obs], strict=True):
            write(one, row)
        noise = None if deterministic else draw_noise(self._predictions, self.spaces, len(rows))
        actions = as_given(np, self.spaces, self.config.action_bounds, policy.act(rows, noise))
        read = action_reader(self.action_space)
        if not batched:
            return read(actions[0]), None
        shape = (len(rows), *(self.action_space.shape or ()))
        return np.array([read(a) for a in actions]).reshape(shape), None

    def _acting_policy(self) -> NumpyPolicy:
        """The policy in NumPy, made anew when something was learnt since the last call."""
        if self._policy is None or self._policy[0] is not self._snapshot:
            policy = NumpyPolicy(
                self.spaces,
                self.config.hidden_sizes,
                self.config.normalize_observations,
                flat_weights(self._snapshot.state),
                self.config.bounded_mean,
            )
            self._policy = (self._snapshot, policy)
        return self._policy[1]

    def evaluate(self, steps: int = 10_000) -> EvaluationReport:
        """The deterministic policy's long-run reward rate over `steps` steps, with an interval.

        Up to 10 environments share the steps, 1000 or more each where there are enough. Each starts
        from a reset and its first steps count, so let the steps be many times the start-up's.
        """
        steps = whole_number("steps", steps, 1)
        state = self._snapshot.state
        if isinstance(self._opened, Environment):
            return device_loop.measure(self._opened, self.config, state, self.seed, steps)
        return host.measure(self._opened, self.config, self.spaces, state, self.seed, steps)

    def save(self, path: str | Path) -> None:
        """Write a checkpoint folder: JSON and safetensors, old one replaced in one go."""
        path = Path(path)
        folder = path / "checkpoint" if (path / "config.json").exists() else path
        snapshots = [self._snapshot]
        state = Checkpoint(
            name_of(self._opened), self.spaces, [self.config], [self.seed], snapshots
        )
        checkpoint.save(folder, state)

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: AnyEnv | None = None,
        *,
        replica: int = 0,
        num_workers: int | None = None,
    ) -> Self:
        """From a folder that `save` wrote, or from one replica of a run folder.

        `env` is needed where the agent was trained on an environment without an id.
        """
        return cls.from_checkpoint(
            checkpoint.load(Path(path)), Path(path), env, replica, num_workers
        )

    @classmethod
    def from_checkpoint(
        cls,
        saved: Checkpoint,
        path: Path,
        env: AnyEnv | None = None,
        replica: int = 0,
        num_workers: int | None = None,
    ) -> Self:
        """One replica of a checkpoint that was read from `path`."""
        if not 0 <= replica < len(saved.seeds):
            raise InputError(f"replica={replica} is not in '{path}', which has {len(saved.seeds)}")
        if env is None:
            require_id(saved.env, path)
            env = saved.env
        agent = cls(env, seed=saved.seeds[replica], num_workers=num_workers)
        # Those that no string names are known by their spaces alone.
        named = isinstance(env, str | Environment)
        name = name_of(agent._opened) if named else saved.env
        checkpoint.require_same(saved, path, cls.algorithm, name, agent.spaces)
        agent.config = saved.configs[replica]
        agent._snapshot = saved.snapshots[replica]
        if (path / "config.json").exists() and len(saved.seeds) == 1:
            agent._log_dir = path.resolve()
        return agent

    def _open_folder(self, path: Path, job: Job) -> RunFolder:
        """A new run folder, or the one that this agent wrote before and goes on with."""
        steps = job.iterations * self.config.steps_per_iteration
        path = path.resolve()
        if self._log_dir == path:
            folder = RunFolder(path)
            folder.extend_to(steps)
            folder.forget_after([self.steps_])
            return folder
        folder = create_folder(path, job, steps)
        self._log_dir = path
        return folder


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
