"""What other libraries call the options: for messages that name ours."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from longrun.base.errors import InputError, suggestion

P = ParamSpec("P")
R = TypeVar("R")

OURS = {
    "gamma": "discount",
    "lr": "learning_rate",
    "n_steps": "rollout_steps",
    "num_steps": "rollout_steps",
    "n_envs": "num_envs",
    "batch_size": "minibatch_size",
    "n_epochs": "epochs",
    "update_epochs": "epochs",
    "lam": "gae_lambda",
    "clip_coef": "clip_range",
    "clip_eps": "clip_range",
    "ent_coef": "entropy_coefficient",
    "target_kl": "kl_limit",
    "max_kl": "kl_limit",
    "net_arch": "hidden_sizes",
    "activation_fn": "activation",
    "features_extractor_class": "policy_network",
    "policy_kwargs": "hidden_sizes",
    "normalize_advantage": "normalize_advantages",
    "log_std_init": "initial_log_std",
}
"""Names of options in Stable-Baselines3, CleanRL, Tianshou and others."""
ELSEWHERE = {
    "policy": "policies are networks of hidden_sizes, or of a function: see policy_network",
    "callback": "see learn(on_log=...) and longrun.callbacks",
    "vf_coef": "both networks are trained separately, so that no weight is needed",
    "verbose": "see learn(progress_bar=...) and on_log",
    "tensorboard_log": "see learn(log_dir=..., tensorboard=True)",
    "total_timesteps": "see learn(steps)",
    "device": "JAX chooses it; set JAX_PLATFORMS=cpu for the CPU",
    "clip_actions": "write action_bounds='clip' (the default) or 'raw'",
}

ARGUMENTS = {
    "total_timesteps": "it is called steps here",
    "callback": "it is called on_log here; longrun.callbacks has the usual ones",
    "reset_num_timesteps": "leave it out: learn always continues",
    "log_interval": "leave it out: every iteration is logged",
    "verbose": "it is called progress_bar here",
    "tb_log_name": "write log_dir=..., tensorboard=True",
    "n_eval_episodes": "give steps: all of them count, and the first 10 episodes are reported",
    "eval_freq": "it is called eval_every here",
}
"""Names of arguments of `learn` and `evaluate` in Stable-Baselines3."""


def require_order(kind: str, env: Any, others: tuple[Any, ...]) -> None:
    """Raise InputError for arguments in another library's order, as PPO("MlpPolicy", env)."""
    names = [word for word in (env, *others) if isinstance(word, str) and word.endswith("Policy")]
    if others or names:
        about = f", and there is no policy class such as {names[0]!r}" if names else ""
        raise InputError(
            f"write {kind}(env, seed=0): the environment comes first, all else has a name{about};"
            " hidden_sizes are those of the networks"
        )


def names_ours(method: Callable[P, R]) -> Callable[P, R]:
    """The same method; an unknown argument is an InputError that says what it is called here."""
    known = [name for name in inspect.signature(method).parameters if name != "self"]

    @functools.wraps(method)
    def checked(*args: P.args, **named: P.kwargs) -> R:
        for name in named:
            if name not in known:
                ours = ARGUMENTS.get(name) or suggestion(name, known)
                raise InputError(f"unknown argument of {method.__name__} {name!r}; {ours}")
        return method(*args, **named)

    return checked
