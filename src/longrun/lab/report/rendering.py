"""Render a policy as pictures, in a process of its own since OpenGL may crash.

python -m longrun.lab.report.rendering RUN REPLICA CHARACTERS TRUST OUT.json

TRUST is 1 if the module may be imported that the run names for its environment, else 0.
"""

from __future__ import annotations

import base64
import io
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from PIL import Image, ImageOps

from longrun.base.errors import InputError
from longrun.base.files import write_json
from longrun.learning.envs.factories import env_factory, make_env, require_saved
from longrun.learning.envs.flat_spaces import as_given
from longrun.learning.envs.numpy_policy import NumpyPolicy
from longrun.learning.envs.spaces import Array, Spaces
from longrun.learning.envs.stepper import GymnasiumStepper
from longrun.learning.options.acting import Acting
from longrun.learning.train import checkpoint
from longrun.learning.train.host.replica import flat_weights

MODE = "rgb_array"
"""Gymnasium's render_mode for pictures"""
SIZE = (320, 240)
SECONDS = 5.0
FASTEST = 20
"""frames per second of an animation at most; steps are skipped to keep the simulation's speed"""
USUAL_FPS = 30
"""where an environment has no render_fps"""
STILLS = 6
SHADOWS = 1024
"""pixels of MuJoCo's shadow map: its default, 4096, takes a CPU twice as long and looks the same"""
QUALITIES = (80, 65, 50, 35, 20)


class Filmed(NamedTuple):
    images: list[Image.Image]
    """every `stride` steps, from the first on"""
    rewards: list[float]
    """the reward of every step"""
    ended: list[int]
    """steps after which an episode ended"""
    stride: int
    fps: float
    """steps per second"""


def render(run: Path, replica: int, characters: int, trust: bool = False) -> dict[str, Any]:
    """Animation, stills and captions, of at most so many characters."""
    saved = checkpoint.load(run)
    require_saved(saved.spec.env, run, trust)
    config, state = saved.spec.configs[replica], saved.snapshots[replica].state
    weights = flat_weights(state)
    env = _open(saved.spec.env)
    try:
        filmed = _film(env, config.acting, saved.spaces, weights)
    finally:
        env.close()
    stills = _stills(filmed)
    left = characters - sum(len(still["image"]) for still in stills)
    return {"animation": _animation(filmed, left), "stills": stills, "caption": _summary(filmed)}


def _open(name: str) -> gymnasium.Env[Any, Any]:
    """The environment with a renderer, or an InputError if it has none.

    One that a function makes with a renderer of its own is taken as it is.
    """
    factory: Callable[..., gymnasium.Env[Any, Any]] = env_factory(name)
    plain = make_env(factory)
    if isinstance(plain, VectorEnv):
        raise InputError(f"'{name}' is a VectorEnv; only single environments are rendered")
    if plain.render_mode == MODE:
        return plain
    modes = plain.metadata.get("render_modes") or []
    plain.close()
    if MODE not in modes:
        raise InputError(f"'{name}' has no render_mode '{MODE}'")
    is_mujoco = type(plain.unwrapped).__module__.startswith("gymnasium.envs.mujoco.")
    size = {"width": SIZE[0], "height": SIZE[1]} if is_mujoco else {}
    try:
        env = make_env(partial(factory, render_mode=MODE, **size))
    except InputError as error:
        raise InputError(f"{error}; pictures need render_mode='{MODE}'") from None
    if size:
        env.unwrapped.model.vis.quality.shadowsize = SHADOWS  # type: ignore[attr-defined]
    return env


def _film(env: gymnasium.Env[Any, Any], acting: Acting, spaces: Spaces, weights: Array) -> Filmed:
    """The deterministic policy from a reset on; after the end of an episode the next one starts."""
    policy = NumpyPolicy(acting, spaces, weights)
    stepper, row = GymnasiumStepper(env), np.zeros((1, spaces.observation_size), np.float32)
    fps = float(env.metadata.get("render_fps") or USUAL_FPS)
    stride = max(1, math.ceil(fps / FASTEST))
    filmed = Filmed([], [], [], stride, fps)
    stepper.reset(0, row[0])
    for step in range(max(int(SECONDS * fps), STILLS * stride)):
        if step % stride == 0:
            filmed.images.append(_picture(env))
        [action] = as_given(np, spaces, acting.action_bounds, policy.act(row, None))
        reward, terminated, truncated = stepper.step(action, row[0])
        filmed.rewards.append(reward)
        if terminated or truncated:
            filmed.ended.append(step + 1)
            stepper.reset(step + 1, row[0])
    return filmed


def _picture(env: gymnasium.Env[Any, Any]) -> Image.Image:
    image = Image.fromarray(np.asarray(env.render(), np.uint8))
    return image if image.size == SIZE else ImageOps.pad(image, SIZE, color="white")


def _animation(filmed: Filmed, characters: int) -> str:
    """The animation in the best quality that fits; with fewer frames if none does."""
    images, pause = filmed.images, 1000 * filmed.stride / filmed.fps
    while True:
        for quality in QUALITIES:
            uri = _uri(images, quality, round(pause))
            if len(uri) <= characters or len(images) <= 2:
                return uri
        images, pause = images[::2], 2 * pause


def _stills(filmed: Filmed) -> list[dict[str, str]]:
    """Evenly spaced images, each with its time and the reward per step since the one before."""
    found, last = [], 0
    for k in range(1, STILLS + 1):
        place = round(k * len(filmed.images) / STILLS) - 1
        step = place * filmed.stride + 1
        rate = float(np.mean(filmed.rewards[last:step]))
        caption = f"{step / filmed.fps:.1f} s: {rate:.3g} per step"
        found.append({"image": _uri([filmed.images[place]], 75), "caption": caption})
        last = step
    return found


def _uri(images: Sequence[Image.Image], quality: int, pause: int = 0) -> str:
    """A picture, or an animation with a pause in ms after each image."""
    file = io.BytesIO()
    more: dict[str, Any] = {"append_images": images[1:], "duration": pause, "loop": 0}
    animated = {"save_all": True, "minimize_size": False} | more if len(images) > 1 else {}
    images[0].save(file, "WEBP", quality=quality, method=3, **animated)
    return f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"


def _summary(filmed: Filmed) -> str:
    steps, ends = len(filmed.rewards), len(filmed.ended)
    words = f"{steps} steps from a reset, {np.mean(filmed.rewards):.4g} reward per step"
    return words + (f", {ends} episode{'s' * (ends > 1)} ended" if ends else "")


def _in_one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    drawn_by = {name.partition(".")[0] for name in sys.modules}
    if isinstance(error, ValueError) or not drawn_by & {"mujoco", "OpenGL"}:
        return text
    packages = "libegl1, libgl1-mesa-dri and libopengl0"
    return f"OpenGL cannot draw here; Debian has one in {packages} ({text})"


def main(arguments: Sequence[str]) -> None:
    """Write pictures or, in one line, the reason why there are none."""
    run, replica, characters, trust, out = arguments
    try:
        found = render(Path(run), int(replica), int(characters), bool(int(trust)))
    except Exception as error:  # a renderer may raise any exception
        found = {"note": _in_one_line(error)}
    write_json(Path(out), found)


if __name__ == "__main__":
    main(sys.argv[1:])
