"""Grids, ranges and random points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longrun.lab.sweeps.grids import Range, Space, parse_lists, parse_ranges, written


def test_lists_have_the_type_of_their_option():
    assert parse_lists(
        [
            "gae-lambda=0.9,1",
            "num_envs=4,1e1",
            "hidden_sizes=64x64,8,none",
            "scale_rewards=true,False",
            "termination=zero,reset",
            "ppo.discount=0.99",
        ]
    ) == {
        "gae_lambda": [0.9, 1.0],
        "num_envs": [4, 10],
        "hidden_sizes": [[64, 64], [8], []],
        "scale_rewards": [True, False],
        "termination": ["zero", "reset"],
        "ppo.discount": [0.99],
    }


def test_ranges_of_integer_options_are_whole():
    found = parse_ranges(["learning_rate=1e-5:1e-3:log", "num_envs=2:8"])
    assert found == {"learning_rate": (1e-5, 1e-3, "log"), "num_envs": (2, 8)}
    assert {name: Range.of(name, given) for name, given in found.items()} == {
        "learning_rate": Range(1e-5, 1e-3, log=True),
        "num_envs": Range(2, 8, whole=True),
    }


@pytest.mark.parametrize("value", [0.1, 1e-5, 3, True, False, "reset", [64, 64], [8], []])
def test_a_written_value_is_parsed_again(value):
    names = {float: "gae_lambda", int: "epochs", bool: "scale_rewards", str: "termination"}
    name = names.get(type(value), "hidden_sizes")
    assert parse_lists([f"{name}={written(value)}"]) == {name: [value]}


@given(
    low=st.floats(1e-6, 1e3),
    width=st.floats(1e-9, 1e3),
    log=st.booleans(),
    whole=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_drawn_values_are_within_the_range(low, width, log, whole, seed):
    if whole:
        low, width = math.ceil(low), math.ceil(width)
    if low + width == low:
        return
    drawn = Range(low, low + width, log, whole).draw(np.random.default_rng(seed))
    assert low <= drawn <= low + width
    assert isinstance(drawn, int) == whole


@pytest.mark.parametrize("log", [False, True])
def test_every_whole_number_of_a_range_is_drawn(log):
    rng = np.random.default_rng(0)
    drawn = [Range(1, 4, log, whole=True).draw(rng) for _ in range(200)]
    assert set(drawn) == {1, 2, 3, 4}


def test_random_points_depend_on_the_seed_alone_and_more_points_extend_them():
    space = Space({"scale_rewards": [True, False]}, {"gae_lambda": Range(0.8, 0.99)})
    points = space.draw(5, seed=3)
    assert points == space.draw(5, seed=3) == space.draw(9, seed=3)[:5]
    assert points != space.draw(5, seed=4)
    assert points[0] == {"scale_rewards": False, "gae_lambda": 0.845}


def test_a_space_with_fewer_points_than_trials_gives_each_once():
    points = Space({"scale_rewards": [True, False]}, {}).draw(10, seed=0)
    assert sorted(p["scale_rewards"] for p in points) == [False, True]


def test_corners_of_a_space():
    space = Space({"scale_rewards": [True]}, {"num_envs": Range(2, 8, whole=True)})
    assert list(space.corners()) == [
        {"scale_rewards": True, "num_envs": 2},
        {"scale_rewards": True, "num_envs": 8},
    ]
