"""What other libraries call the options: for messages that name ours."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from longrun.errors import InputError

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
}


def hint(name: str, options: Collection[str], algorithm: str) -> str | None:
    """What to write instead of another library's name; None if it is not known."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    if name not in OURS:
        return None
    if OURS[name] in options:
        return f"it is called {OURS[name]} here"
    return f"it is called {OURS[name]} here, which {algorithm.upper()} does not have"


def require_order(kind: str, env: Any, others: tuple[Any, ...]) -> None:
    """Raise InputError for arguments in another library's order, as PPO("MlpPolicy", env)."""
    names = [word for word in (env, *others) if isinstance(word, str) and word.endswith("Policy")]
    if others or names:
        about = f", and there is no policy class such as {names[0]!r}" if names else ""
        raise InputError(
            f"write {kind}(env, seed=0): the environment comes first, all else has a name{about};"
            " hidden_sizes are those of the networks"
        )
