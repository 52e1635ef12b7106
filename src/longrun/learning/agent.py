"""What the four algorithms share: learn, predict, evaluate, save, load."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from longrun.base.checks import MOST_STEPS, STEP_TIMEOUT, checked_timeout, whole_number
from longrun.base.errors import FolderError, InputError, warn
from longrun.base.files import FolderLock, make_folder
from longrun.learning.envs.env_strings import with_args
from longrun.learning.envs.factories import require_saved
from longrun.learning.envs.native.protocol import Environment
from longrun.learning.envs.spaces import interface_of
from longrun.learning.learn.types import TrainState
from longrun.learning.options.arguments import options_in_words, signature_with_options
from longrun.learning.options.config import Config, Discounted, kind_of
from longrun.learning.options.config_options import make_config
from longrun.learning.options.other_names import names_ours, require_order
from longrun.learning.options.presets import DEFAULT
from longrun.learning.policy.policy import Policy
from longrun.learning.runs.evaluation_report import EvaluationReport
from longrun.learning.runs.spec import RunSpec
from longrun.learning.train import checkpoint
from longrun.learning.train.changes_at_load import changed_at_load
from longrun.learning.train.checkpoint import Checkpoint
from longrun.learning.train.evaluation import Streams, measured
from longrun.learning.train.events import Snapshot
from longrun.learning.train.experiment_trackers import require_tensorboard, to_tensorboard
from longrun.learning.train.host.replica import flat_weights
from longrun.learning.train.open_run import AnyEnv, Loop, OpenRun, begun, open_env
from longrun.learning.train.progress import OnLogs, Progress
from longrun.learning.train.training import Training

SAVE_SECONDS = 10.0
"""How long `save` waits for another process that saves to the same folder."""


class Agent:
    """A policy for one environment, and how it is learned. Use `APO`, `PPO`, `ATRPO` or `TRPO`.

    `env` is a Gymnasium id, an environment (which is copied, never stepped) or a function that
    makes one; a Gymnasium VectorEnv or a function that makes one, which has all environments of an
    agent and determines `num_envs`; or a JAX-native environment or its string ('jax:criss-cross',
    'brax:ant', ...), which trains inside one compiled program. `env_args` are arguments for an
    environment named by a string. `num_workers` processes simulate Gymnasium environments, by
    default one for each core (one for a VectorEnv); 0 simulates in this process. A step or reset
    that takes longer than `step_timeout` seconds ends the training with a WorkerError (0: no
    limit); in this process its thread is left behind. `name` is what tables and legends call this
    agent's runs; runs of the same name count as the same problem. `preset` is a named set of
    options: "tuned" (the default, for control tasks), "paper" (the paper's setting) or "queueing".
    All other options, which change those of the preset, are those of the algorithm: help(APO)
    lists them.

    Attributes: `config`, the algorithm's options; `spec`, the description of the run; `loop`, which
    trains and measures, with the opened environment as `loop.env`; `evaluations`, a list of
    (step, `EvaluationReport`), those that `learn` has made so far with this object.
    """

    algorithm: ClassVar[str]
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        """Signature and docstring of an algorithm's class name its options, from their fields."""
        if "algorithm" in vars(cls):
            kind = kind_of(cls.algorithm)
            cls.__signature__ = signature_with_options(Agent.__init__, kind)
            cls.__doc__ = f"{cls.__doc__ or kind.__doc__}\n\n{options_in_words(kind)}\n"

    def __init__(
        self,
        env: AnyEnv,
        *others: Any,
        seed: int = 0,
        preset: str = DEFAULT,
        env_args: Mapping[str, Any] | None = None,
        num_workers: int | None = None,
        step_timeout: float = STEP_TIMEOUT,
        name: str | None = None,
        **options: Any,
    ) -> None:
        require_order(type(self).__name__, env, others)
        config = make_config(self.algorithm, preset, **options)
        loop = _opened(env, env_args, step_timeout)
        if loop.vector_size and "num_envs" not in options:
            config = replace(config, num_envs=loop.vector_size)
        spec = RunSpec(
            env=loop.name,
            configs=(config,),
            seeds=(seed,),
            steps=0,
            preset=preset,
            name=name,
            num_workers=num_workers,
            step_timeout=step_timeout,
        )
        self._begin(loop, spec, begun(loop, spec)[0])

    def _begin(self, loop: Loop, spec: RunSpec, snapshot: Snapshot) -> None:
        """Everything that an agent has, whether it is new or comes from a file."""
        self.loop, self.spec = loop, spec
        self.spaces = loop.spaces
        self.observation_space = loop.observation_space
        self.action_space = loop.action_space
        self.evaluations: list[tuple[int, EvaluationReport]] = []
        self._snapshot = snapshot
        self._training: Training | None = None
        """what `learn` does at this moment"""
        self._run_folder: Path | None = None
        """the folder of the run that this agent continues"""
        self._digest: str | None = None
        """content hash of the checkpoint in it"""
        self._made_policy: tuple[Snapshot, Policy] | None = None
        self._predictions = np.random.default_rng(self.seed)

    def __repr__(self) -> str:
        name = self.loop.name
        return f"{type(self).__name__}({name!r}, seed={self.seed}, steps_={self.steps_})"

    @property
    def config(self) -> Config:
        """The algorithm's options."""
        return self.spec.configs[0]

    @property
    def seed(self) -> int:
        """The seed of networks, environments and actions."""
        return self.spec.seeds[0]

    @property
    def snapshot(self) -> Snapshot:
        """All that is needed to resume training; another object whenever something was learned."""
        return self._snapshot if self._training is None else self._training.snapshots[0]

    @snapshot.setter
    def snapshot(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @property
    def state(self) -> TrainState:
        """What was learned: networks, optimiser states, criterion and observation moments."""
        return self.snapshot.state

    @property
    def steps_(self) -> int:
        """Environment steps learned from so far."""
        return int(self.state.iteration) * self.config.steps_per_iteration

    @property
    def gain_(self) -> float:
        """A lagging estimate of the average reward from training, net of reset costs.

        It is of the policies of the last iterations; `evaluate` measures the present one.
        """
        if isinstance(self.config, Discounted):
            raise AttributeError(
                f"{self.algorithm.upper()} is discounted and learns no gain; see"
                " evaluate().average_reward"
            )
        return float(self.state.criterion.gain)

    @names_ours
    def learn(
        self,
        steps: int,
        *,
        log_dir: str | Path | None = None,
        eval_every: int | None = None,
        eval_steps: int = 10_000,
        on_log: OnLogs | None = None,
        progress_bar: bool | None = None,
        tensorboard: bool = False,
    ) -> Self:
        """Learn from `steps` more environment steps, rounded up to whole iterations.

        With `log_dir` the run is written to that folder: metrics, evaluations (every `eval_every`
        steps; by default up to 20 times, and rarely enough that evaluations take about a third of
        the training's steps, more in short runs; 0 for never), checkpoints. Without it there are
        evaluations if `eval_every` is given. They are in `evaluations`. `on_log(progress)` is
        called after each iteration and may return False to stop; the agent is then the one that has
        learned so far, to be evaluated or saved. It may be a list of such functions, and
        `longrun.callbacks` has some: stop at a reward rate or on a plateau, save the best. On a
        JAX-native environment it is called for all iterations of a call of the program, which takes
        about a second, when the call is done.

        Calling `learn` again continues from there. With `learning_rate_decay`, which the default
        preset sets, the learning rate falls to 0 over the steps of each call, and starts anew in
        the next: to do something in between, give `on_log` to one long call, or set
        `learning_rate_decay=False`. Gymnasium environments stay alive until
        the next call, as long as no more than one other agent has learned in between; `close` ends
        them and their processes.
        """
        if tensorboard:
            require_tensorboard(log_dir)
        if eval_every is None and log_dir is None:
            eval_every = 0
        begins, each = self.steps_, self.config.steps_per_iteration
        more = -(-whole_number("steps", steps, 1, MOST_STEPS) // each) * each
        spec = replace(
            self.spec,
            steps=begins + more,
            begins=begins,
            eval_every=eval_every,
            eval_steps=eval_steps,
        )
        path = None if log_dir is None else Path(log_dir).resolve()
        is_own = path is not None and path == self._run_folder
        run = OpenRun(spec, self.loop, [self.snapshot], path, is_own, self._digest)
        users = [on_log] if callable(on_log) else on_log or []
        writers = [to_tensorboard()] if tensorboard else []
        training = Training(run, [self._note, *users, *writers], keep_environments=True)
        if path is not None:
            self._run_folder = path
        self._training = training
        try:
            training.run(progress_bar)
        finally:
            self._training = None
            self.snapshot = training.snapshots[0]
            if path is not None:
                self._digest = training.digest
        return self

    def _note(self, progress: Progress) -> None:
        if progress.evaluation is not None:
            self.evaluations.append((progress.step, progress.evaluation))

    def predict(self, obs: Any, deterministic: bool = True) -> tuple[Any, None]:
        """The action for an observation; or one for each row of a batch of Box observations.

        It is what the environment would be given in training: with `action_bounds="raw"` it may
        lie beyond the action space. An observation that is not finite is refused, as in training.
        """
        return self._policy().predict(obs, deterministic)

    def export(self, path: str | Path) -> None:
        """Write the deterministic policy as an ONNX file; needs the extra `onnx`.

        Standardisation, masks and bounds are inside. Inputs are `observation` [N, ...], with masks
        also `action_mask` [N, K]; the output is `action` [N, ...]. The file is compared with
        `predict` on random observations before it is written.
        """
        self._policy().export(path)

    def _policy(self) -> Policy:
        """The policy as it is by now."""
        if self._made_policy is None or self._made_policy[0] is not self.snapshot:
            about = {"algorithm": self.config.algorithm, "env": self.loop.name}
            interface, weights = interface_of(self.loop), flat_weights(self.state)
            acting, random = self.config.acting, self._predictions
            made = Policy(acting, self.spaces, weights, interface, random, about)
            self._made_policy = self.snapshot, made
        return self._made_policy[1]

    @names_ours
    def evaluate(
        self,
        steps: int = 10_000,
        *,
        warmup: int | None = None,
        deterministic: bool | None = None,
        seed: int | None = None,
        env: AnyEnv | None = None,
    ) -> EvaluationReport:
        """The policy's average reward over `steps`, with an interval.

        Parameters
        ----------
        steps
            Shared by up to 10 environments, 1000 or more each where there are enough, or the time
            limit of their episodes. Each starts from a reset, and up to four times as many steps
            are simulated where these cannot tell the long run.
        warmup
            Steps of each environment that do not count, simulated beforehand; the rate is the mean
            of the others. By default they are measured: where no episode ends, the first of the
            `steps` are left out until the reward is that of the second half. Where episodes end,
            each has its start-up, and all steps count, with the weight that the age of an episode
            has in the long run.
        deterministic
            True takes the most likely actions, or the mean; False draws them, as in training. By
            default actions are drawn only if there are limits on costs, which hold for drawn
            actions: the best policy that keeps them may have to draw.
        seed
            Of environments and actions; by default the agent's. No evaluation of a training has
            the same random numbers.
        env
            Another environment with the same spaces, such as one with other arguments.

        Notes
        -----
        `gain_` is the rate of the policies of the last iterations, which drew their actions; with
        `deterministic=False` the rate is that of the present policy. The deterministic policy is
        another one, better or worse. The evaluations of a training, in evaluations.csv, estimate
        the same rate from the steps that they were given.
        """
        steps = whole_number("steps", steps, 1)
        warmup = None if warmup is None else whole_number("warmup", warmup)
        seed = self.seed if seed is None else whole_number("seed", seed)
        loop = self.loop if env is None else open_env(env, self.spec.step_timeout)
        if loop.spaces != self.spaces:
            raise InputError(f"env={env!r} has {loop.spaces}, the agent {self.spaces}")
        config, state = self.config, self.state
        draw = config.draws_evaluated_actions if deterministic is None else not deterministic

        def simulate(envs: int, each: int) -> Streams:
            return loop.simulate(config, state, seed, (envs, each), draw, self.spec.step_timeout)

        found = measured(simulate, loop.evaluation_shape(steps), warmup, not draw)
        if not found.settled:
            warn(
                f"{found.unsettled}, so that the average is not that of the long run; evaluate more"
                f" than steps={steps}"
            )
        return found

    def save(self, path: str | Path) -> None:
        """Write a checkpoint folder of JSON and safetensors; an old one is replaced in one step.

        Raises FolderError if another process is training in the folder, or if it is the folder of a
        run that this agent does not continue, whose checkpoint would be lost.
        """
        path = Path(path)
        own = self._run_folder == path.resolve()
        folder = path / "checkpoint" if (path / "config.json").exists() else path
        if folder != path and not own:
            raise FolderError(
                f"'{path}' holds a run that this agent does not continue, and whose checkpoint"
                " would be replaced; choose another folder"
            )
        content = self.checkpoint()
        make_folder(path)
        if own and self.log_dir is not None:  # in a callback, while `learn` has the lock
            checkpoint.save(folder, content)
            return
        with FolderLock(path, 0.0 if folder != path else SAVE_SECONDS):
            digest = checkpoint.save(folder, content)
        if own:
            self._digest = digest

    @property
    def log_dir(self) -> Path | None:
        """The run folder that `learn` is writing to at this moment; None if there is none."""
        return None if self._training is None else self._training.log_dir

    def checkpoint(self) -> Checkpoint:
        """What `save` writes."""
        spec = replace(self.spec, steps=self.steps_)
        return Checkpoint(spec, self.spaces, [self.snapshot], interface_of(self.loop))

    def close(self) -> None:
        """Close the environments, and their processes, that `learn` keeps for its next call.

        The next call makes new ones and brings them to where these were.
        """
        self.loop.close()

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: AnyEnv | None = None,
        *,
        replica: int = 0,
        env_args: Mapping[str, Any] | None = None,
        num_workers: int | None = None,
        step_timeout: float = STEP_TIMEOUT,
        **options: Any,
    ) -> Self:
        """Load an agent from a folder that `save` wrote, or from one replica of a run folder.

        `env` is needed if the agent was trained on an environment without an id, or with an id in a
        module ('module:Id') that has not been imported: files that are loaded import nothing.

        To continue otherwise than before, as in fine-tuning: `env_args` changes arguments of the
        environment, and `options` those of the algorithm (all but what the networks compute). A
        network of your own has to be given again: `policy_network=(init, apply)`.
        """
        own: dict[str, Any] = {
            n: options.pop(n) for n in ("policy_network", "value_network") if n in options
        }
        return cls.from_checkpoint(
            checkpoint.load(Path(path), own),
            Path(path),
            replica,
            env,
            env_args=env_args,
            options=options,
            num_workers=num_workers,
            step_timeout=step_timeout,
        )

    @classmethod
    def from_checkpoint(
        cls,
        saved: Checkpoint,
        path: Path,
        replica: int = 0,
        env: AnyEnv | None = None,
        *,
        env_args: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        num_workers: int | None = None,
        step_timeout: float = STEP_TIMEOUT,
        trust: bool = False,
    ) -> Self:
        """One replica of a checkpoint that `checkpoint.load` has read from `path`.

        `trust` allows to import the module that the checkpoint names for its environment.
        """
        configs, seeds = saved.spec.configs, saved.spec.seeds
        if not 0 <= replica < len(seeds):
            raise InputError(f"replica={replica} is not in '{path}', which has {len(seeds)}")
        checkpoint.require_algorithm(saved.spec, path, cls.algorithm)
        if env is None:
            require_saved(saved.spec.env, path, trust)
            env = saved.spec.env
        loop = _opened(env, env_args, step_timeout)
        # An environment without a name of its own, or with other arguments, is compared by its
        # spaces alone.
        is_named = isinstance(loop.env, str | Environment)
        name = loop.name if is_named and not env_args else saved.spec.env
        checkpoint.require_same(saved, path, name, loop.spaces)
        config, seed, snapshot = configs[replica], seeds[replica], saved.snapshots[replica]
        if env_args or options:
            changes = options or {}
            config, snapshot = changed_at_load(
                loop, config, snapshot, changes, seed, bool(env_args)
            )
        spec = replace(
            saved.spec,
            env=loop.name,
            configs=(config,),
            seeds=(seed,),
            num_workers=num_workers,
            step_timeout=step_timeout,
        )
        agent = cls.__new__(cls)  # __init__ would compile networks that are replaced at once
        agent._begin(loop, spec, snapshot)
        is_whole_run = (path / "config.json").exists() and len(seeds) == 1
        if is_whole_run and not env_args and not options:
            agent._run_folder, agent._digest = path.resolve(), saved.digest
        return agent


def _opened(env: AnyEnv, env_args: Mapping[str, Any] | None, step_timeout: float) -> Loop:
    """The environment with other arguments."""
    return open_env(
        env if env_args is None else with_args(env, env_args), checked_timeout(step_timeout)
    )
