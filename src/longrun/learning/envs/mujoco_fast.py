"""Step Gymnasium's MuJoCo tasks without Gymnasium's Python layer, bit for bit the same.

`fast_stepper(env)` drives the model and data *inside* a Gymnasium environment: it makes the same
`mj_step` call and does the same arithmetic, in the same order and precision, on arrays looked up
once, and leaves out the info dictionary, the wrapper calls, the checks and the temporary arrays.

What makes it exact:

* MuJoCo's arrays (`data.qpos`, ...) are views of C memory that never moves, not even in
  `mj_resetData`, so one view taken at construction stays current.
* Python floats are IEEE doubles, so scalar work on them equals NumPy's float64 work, only faster.
* NumPy multiplies a Python float by a float32 in float32. The control cost of a float32 action is
  therefore a float32, here as there; see `FastStepper._control_cost`.
* Sums go through the reduction Gymnasium's `np.sum` ends in, so they add up in the same order.

Constants (weights, ranges, time step, masses) are read at construction: build a new stepper after
changing them. All that changes in the environment is a solver flag, see `_skip_islands`.
MuJoCo is imported only when an environment is a MuJoCo task.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import gymnasium
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from longrun.learning.envs.mujoco_tasks import TASKS, FastStepper
from longrun.learning.envs.mujoco_velocity import SpeedCost


def fast_stepper(env: gymnasium.Env[Any, Any]) -> FastStepper | None:
    """A stepper for `env`, or None where Gymnasium's own `step` is needed.

    It takes exactly the v5 classes of Swimmer, HalfCheetah, Hopper, Walker2d, Ant and Humanoid (no
    subclasses), with any constructor argument but a render mode, inside no other wrappers than
    those `gymnasium.make` adds and the cost of the velocity tasks. It reads private fields of
    these: if one is missing, as is possible in another version of Gymnasium, a warning says so
    once, and the result is None.
    """
    try:
        return _made(env)
    except AttributeError as error:
        warnings.warn(
            f"Gymnasium {gymnasium.__version__} differs from the versions that longrun's fast"
            f" MuJoCo steps are made for ({error}); its own, slower steps are used",
            stacklevel=1,  # one line for all environments, so that Python shows it once
        )
        return None


def _made(env: gymnasium.Env[Any, Any]) -> FastStepper | None:
    task: Any = env
    max_steps, speed = math.inf, None
    while type(task) in (TimeLimit, OrderEnforcing, PassiveEnvChecker, SpeedCost):
        if type(task) is TimeLimit:
            max_steps = min(max_steps, task._max_episode_steps)
        if type(task) is SpeedCost:
            speed = task
        task = task.env
    stepper_class = TASKS.get(f"{type(task).__module__}.{type(task).__qualname__}")
    if stepper_class is None or task.render_mode is not None:
        return None
    stepper = stepper_class(env, task, max_steps, speed)
    _skip_islands(task)
    return stepper


def _skip_islands(task: Any) -> None:
    """Do not look for constraint islands, where there is one at most.

    All six robots are one kinematic tree. Not looking leaves the solver the same system and saves
    up to a tenth of the physics.
    """
    from mujoco import mjtDisableBit

    if task.model.ntree == 1 and not task.model.opt.enableflags:
        task.model.opt.disableflags |= mjtDisableBit.mjDSBL_ISLAND
