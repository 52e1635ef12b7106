"""The fast MuJoCo steppers give Gymnasium's numbers, bit for bit."""

from __future__ import annotations

import subprocess
import sys
import warnings
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import ClipAction, TimeLimit

from longrun.learning.envs import seeding
from longrun.learning.envs.mujoco_fast import fast_stepper
from longrun.learning.envs.plan import Plan, SharedArrays
from longrun.learning.envs.shard import Shard
from longrun.learning.envs.spaces import describe
from longrun.learning.envs.stepper import GymnasiumStepper, make_stepper
from longrun.learning.options.acting import Acting

TASKS = ["Swimmer-v5", "HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5"]

WITH_POSITIONS: dict[str, Any] = {
    "frame_skip": 3,
    "forward_reward_weight": 0.7,
    "ctrl_cost_weight": 0.3,
    "reset_noise_scale": 0.02,
    "exclude_current_positions_from_observation": False,
}
WALKING: dict[str, Any] = WITH_POSITIONS | {
    "healthy_reward": 0.3,
    "healthy_z_range": (0.9, 1.5),
    "healthy_angle_range": (-0.15, 0.1),
}
# NumPy scalars take part in type promotion where Python numbers do not.
NUMPY_WEIGHTS: dict[str, Any] = {
    "forward_reward_weight": np.float32(0.7),
    "ctrl_cost_weight": np.float64(0.3),
}
NUMPY_HEALTH: dict[str, Any] = NUMPY_WEIGHTS | {
    "healthy_reward": np.float32(0.3),
    "healthy_z_range": (np.float32(0.3), np.float32(1.4)),
}
UNDYING: dict[str, Any] = {"terminate_when_unhealthy": False, "healthy_reward": 2}

CASES: list[tuple[str, dict[str, Any]]] = [
    *((task, {}) for task in TASKS),
    ("Swimmer-v5", WITH_POSITIONS),
    ("Swimmer-v5", NUMPY_WEIGHTS),
    ("HalfCheetah-v5", WITH_POSITIONS),
    ("HalfCheetah-v5", NUMPY_WEIGHTS),
    ("Hopper-v5", WALKING | {"healthy_state_range": (-2.0, 3.0)}),
    ("Hopper-v5", UNDYING | {"ctrl_cost_weight": np.float32(0.1)}),
    ("Walker2d-v5", WALKING),
    ("Walker2d-v5", UNDYING),
    ("Walker2d-v5", NUMPY_HEALTH),
    (
        "Ant-v5",
        WITH_POSITIONS
        | {
            "healthy_z_range": (0.4, 0.9),
            "contact_force_range": (-0.5, 2.0),
            "contact_cost_weight": 0.1,
            "main_body": "front_left_leg",
        },
    ),
    ("Ant-v5", UNDYING | {"include_cfrc_ext_in_observation": False}),
    ("Ant-v5", NUMPY_HEALTH),
    (
        "Humanoid-v5",
        WITH_POSITIONS
        | {
            "healthy_z_range": (1.2, 1.6),
            "contact_cost_weight": 1e-3,
            "contact_cost_range": (0.1, 2.0),
            "include_cinert_in_observation": False,
            "include_qfrc_actuator_in_observation": False,
        },
    ),
    (
        "Humanoid-v5",
        UNDYING | {"include_cvel_in_observation": False, "include_cfrc_ext_in_observation": False},
    ),
    ("Humanoid-v5", {"include_cvel_in_observation": 1}),  # values but True leave the part out
]


@pytest.mark.filterwarnings("ignore::UserWarning")  # Gymnasium's, about the last case's shape
@pytest.mark.parametrize(
    ("task", "options"), CASES, ids=[f"{task}-{i}" for i, (task, _) in enumerate(CASES)]
)
def test_equals_gymnasium_to_the_bit(task: str, options: dict[str, Any]) -> None:
    """Five episodes with actions clipped to the bounds, five with raw ones, and so on."""
    mortal = task not in ("Swimmer-v5", "HalfCheetah-v5") and options.get(
        "terminate_when_unhealthy", True
    )
    # Short enough that some episodes of a robot that can fall reach the time limit.
    max_steps = 40 if mortal else 60
    plain = gymnasium.make(task, max_episode_steps=max_steps, **options)
    stepped = gymnasium.make(task, max_episode_steps=max_steps, **options)
    stepper = fast_stepper(stepped)
    assert stepper is not None

    rng = np.random.default_rng(0)
    space = plain.action_space
    assert isinstance(space, gymnasium.spaces.Box)
    ends = {"clipped": [0, 0], "raw": [0, 0]}
    episode = 0
    scale, kind, done = 0.0, "", True
    obs = np.empty(0)
    for _ in range(600):
        if done:
            expected, _ = plain.reset(seed=episode)
            obs = np.full(expected.shape, np.nan)
            stepper.reset(episode, obs)
            assert np.array_equal(obs, expected)
            scale = (0.0, 0.1, 0.5, 1.0, 5.0)[episode % 5]
            kind = ("clipped", "raw")[episode // 5 % 2]
            episode += 1
        action = (scale * rng.standard_normal(space.shape)).astype(np.float32)
        if kind == "clipped":
            action = np.clip(action, space.low, space.high)
        expected, expected_reward, *expected_ends, _ = plain.step(action)
        obs.fill(np.nan)
        reward, terminated, truncated = stepper.step(action, obs)
        assert np.array_equal(obs, expected)
        assert type(reward) is float and reward == expected_reward
        assert [terminated, truncated] == expected_ends
        assert type(terminated) is bool and type(truncated) is bool
        ends[kind][0] += terminated
        ends[kind][1] += truncated
        done = terminated or truncated

    assert episode >= 10  # each scale with both kinds of actions
    for terminations, truncations in ends.values():
        assert truncations > 0
        assert (terminations > 0) == mortal
    # The environment itself is unchanged: it resets and steps as the original does.
    assert np.array_equal(stepped.reset(seed=7)[0], plain.reset(seed=7)[0])
    action = space.low
    assert np.array_equal(stepped.step(action)[0], plain.step(action)[0])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("bounds", ["raw", "clip"])
def test_a_workers_reward_is_gymnasiums_for_the_action_that_was_drawn_or_clipped(
    task: str, bounds: str
) -> None:
    """MuJoCo clamps the force, but the control cost is charged on the action as given."""
    factory = partial(gymnasium.make, task)
    plain = factory()
    sizes = describe(plain)
    plan = Plan(factory, sizes, Acting((8,), action_bounds=bounds), (0,), 1, 20)  # type: ignore
    arrays = SharedArrays(plan.memory())
    arrays.close()
    shard = Shard(plan, arrays, worker=0, num_workers=1)
    shard.restart(0, [0])
    arrays["weights"][0, 2 * sizes.feature_size :][: sizes.action_size] = np.log(3.0)
    shard.rollout(0, 0)
    drawn, reward = arrays["action"][0, :, 0], arrays["reward"][0, :, 0]
    ended = arrays["terminated"][0, :, 0]
    low, high = sizes.limits
    assert (np.abs(drawn) > 2 * high).any()

    plain.reset(seed=seeding.episode_seed(0, seeding.EPISODE, 0, 0))
    steps = int(np.argmax(ended)) + 1 if ended.any() else len(drawn)
    assert steps > 3
    clamped, charged = factory(), []
    clamped.reset(seed=seeding.episode_seed(0, seeding.EPISODE, 0, 0))
    for action, paid in zip(drawn[:steps], reward, strict=False):
        given = action if bounds == "raw" else np.clip(action, low, high)
        obs, expected, _, _, info = plain.step(given)
        assert np.float32(expected) == paid
        other, _, _, _, other_info = clamped.step(np.clip(action, low, high))
        np.testing.assert_array_equal(obs, other)  # the same motion, with another cost
        charged.append(info["reward_ctrl"] - other_info["reward_ctrl"])
        weight = plain.unwrapped._ctrl_cost_weight  # type: ignore[attr-defined]
        excess = np.sum(np.square(given)) - np.sum(np.square(np.clip(action, low, high)))
        np.testing.assert_allclose(charged[-1], -weight * excess, rtol=1e-4, atol=1e-6)
    assert (min(charged) < 0) == (bounds == "raw")


def test_writes_a_float32_row_and_nothing_else() -> None:
    plain, stepped = gymnasium.make("Humanoid-v5"), gymnasium.make("Humanoid-v5")
    stepper = fast_stepper(stepped)
    assert stepper is not None
    rows = np.full((3, 348), 7.0, np.float32)
    stepper.reset(3, rows[1])
    assert np.array_equal(rows[1], plain.reset(seed=3)[0].astype(np.float32))
    action = np.full(17, 0.1, np.float32)
    stepper.step(action, rows[1])
    assert np.array_equal(rows[1], plain.step(action)[0].astype(np.float32))
    assert (rows[[0, 2]] == 7.0).all()


def test_the_shortest_time_limit_counts_and_none_never_truncates() -> None:
    limited = fast_stepper(TimeLimit(gymnasium.make("Swimmer-v5", max_episode_steps=5), 3))
    unlimited = fast_stepper(gymnasium.make("Swimmer-v5").unwrapped)
    assert limited is not None and unlimited is not None
    obs, action = np.empty(8), np.zeros(2, np.float32)
    for _ in range(2):  # the counter starts again with a new episode
        limited.reset(0, obs)
        assert [limited.step(action, obs)[2] for _ in range(3)] == [False, False, True]
    unlimited.reset(0, obs)
    assert not any(unlimited.step(action, obs)[2] for _ in range(1100))


@pytest.mark.parametrize("task", ["Hopper-v5", "Walker2d-v5", "Ant-v5"])
def test_the_health_of_non_finite_states_is_that_in_gymnasium(task: str) -> None:
    """MuJoCo hardly ever returns such states, so the health condition is called directly."""
    env: Any = gymnasium.make(task).unwrapped
    stepper: Any = fast_stepper(env)
    for name in ("qpos", "qvel"):
        for i in range(len(getattr(env.data, name))):
            for value in (np.nan, np.inf, -np.inf):
                env.reset(seed=0)
                assert stepper.is_healthy()
                getattr(env.data, name)[i] = value
                assert stepper.is_healthy() == env.is_healthy


@pytest.mark.parametrize("task", TASKS)
def test_no_stepper_for_environments_that_it_does_not_reproduce(task: str) -> None:
    env = gymnasium.make(task)
    assert fast_stepper(ClipAction(env)) is None
    assert fast_stepper(gymnasium.make(task, render_mode="rgb_array")) is None

    task_class: Any = type(env.unwrapped)
    subclass: Any = type("Subclass", (task_class,), {})
    assert fast_stepper(subclass()) is None


MISSING = [
    ("Swimmer-v5", "_forward_reward_weight"),
    ("HalfCheetah-v5", "_ctrl_cost_weight"),
    ("Hopper-v5", "_healthy_state_range"),
    ("Walker2d-v5", "_healthy_angle_range"),
    ("Ant-v5", "_contact_force_range"),
    ("Humanoid-v5", "_include_cinert_in_observation"),
]


@pytest.mark.parametrize(("task", "field"), MISSING)
def test_a_missing_field_means_gymnasiums_own_steps_and_one_warning(task: str, field: str) -> None:
    env: Any = gymnasium.make(task)
    flags = env.unwrapped.model.opt.disableflags
    delattr(env.unwrapped, field)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        steppers = [make_stepper(env) for _ in range(3)]
    assert [type(stepper) for stepper in steppers] == [GymnasiumStepper] * 3
    assert len(shown) == 1 and shown[0].category is UserWarning
    message = str(shown[0].message)
    assert f"Gymnasium {gymnasium.__version__} differs" in message and f"'{field}'" in message
    assert env.unwrapped.model.opt.disableflags == flags, "the environment is not changed"


def test_no_stepper_for_other_environments() -> None:
    assert fast_stepper(gymnasium.make("CartPole-v1")) is None
    assert fast_stepper(gymnasium.make("InvertedPendulum-v5")) is None


def test_other_environments_never_import_mujoco() -> None:
    code = (
        "import sys, gymnasium; from longrun.learning.envs.mujoco_fast import fast_stepper; "
        "assert fast_stepper(gymnasium.make('CartPole-v1')) is None; "
        "assert not {'mujoco', 'jax'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
