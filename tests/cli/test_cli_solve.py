"""`longrun solve`: output, files, errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from command_line import call, require_picture
from longrun.cli.solve import MODELS
from longrun.cli.solve_report import certified
from longrun.exact.tabular.models import access_control
from longrun.lab.policy_map import picture
from longrun.tabular import NoConvergence, evaluate, from_gymnasium, solve


@pytest.fixture
def longrun_solve(capsys):
    """Runs the command in this process."""

    return partial(call, capsys, "solve")


@pytest.fixture
def report(longrun_solve):
    def run(*arguments: object) -> Any:
        status, out, err = longrun_solve(*arguments, "--json")
        assert (status, err) == (0, "")
        assert out.count("\n") == 1
        return json.loads(out)

    return run


# Help.


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_lists_the_models(longrun_solve, arguments):
    status, out, err = longrun_solve(*arguments)
    assert (status, err) == (0, "")
    assert out.startswith("usage: longrun solve MODEL [options]")
    for name, build in MODELS.items():
        assert f"  {name} " in out and build.__doc__.splitlines()[0] in out
    assert "FrozenLake-v1" in out


@pytest.mark.parametrize("name", MODELS)
def test_help_of_each_model(longrun_solve, name):
    status, out, err = longrun_solve(name, "--help")
    assert (status, err) == (0, "")
    for option in ("--method", "--tolerance", "--check-truncation", "--kemeny", "--map", "--json"):
        assert option in out
    assert f"longrun solve {name}" in out and "(default:" in out


def test_help_lists_the_options_of_a_model(longrun_solve):
    out = longrun_solve("access-control", "--help").out
    assert "--servers" in out and "--free-probability" in out and "(default: 10)" in out
    assert "--priorities" in out and "(default: 1.0 2.0 4.0 8.0)" in out


# What it prints.


def test_riverswim(longrun_solve):
    status, out, err = longrun_solve("riverswim")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert (
        lines[0]
        == "RiverSwim, 6 states: 6 states, 22 transitions, communicating, unichain, aperiodic"
    )
    assert re.fullmatch(
        r"optimal average reward 0\.42862243, certified to 1[2345] digits", lines[1]
    )
    assert any("right" in line and line.count("100.00%") == 2 for line in lines)
    assert "Kemeny" not in out, "only on request: it may take ten times as long as the solution"
    assert re.match(r"1 policy iteration after \d+ value sweeps: ", lines[-1])
    assert " s to build the model, " in lines[-1]
    assert lines[-1].endswith(" s to evaluate the policy")


def test_sweeps_are_counted(report, longrun_solve):
    """Most of the work of one policy iteration may be the steps of value iteration before it."""
    found = report("criss-cross", "--size", 30, "--no-kemeny")
    assert found["iterations"] <= 3 and found["sweeps"] >= 50 and found["sweeps"] % 50 == 0
    lines = longrun_solve("access-control", "--servers", 3, "--method", "value_iteration").out
    assert re.search(r"\nvalue_iteration, \d+ iterations: ", lines)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (2.74764195057, 2.74764195058, "2.747642, certified to 11 digits"),
        (2.747641, 2.747643, "2.74764, certified to 6 digits: between 2.747641 and 2.747643"),
        (1.0, 1.5, "1.2, certified to 0 digits: between 1 and 1.5"),
        (0.0, 0.0, "0, certified to 15 digits"),
        (-1e-9, 3e-9, "1e-09, certified to 0 digits: between -1e-09 and 3e-09"),
        (19.99999999999, 20.0, "20, certified to 12 digits"),
    ],
)
def test_certified_digits(low, high, words):
    assert certified((low + high) / 2, low, high) == words


def test_costs_are_shown_as_costs(longrun_solve):
    out = longrun_solve("criss-cross", "--regime", "IL", "--size", 4, "--tolerance", 1e-4).out
    assert out.startswith("criss-cross IL, up to 4 a queue: 125 states, ")
    assert "optimal average cost 0.66781" in out
    out = longrun_solve("criss-cross", "--size", 12, "--tolerance", 1e-3).out
    low, high = out.split("digits: between ")[1].split("\n")[0].split(" and ")
    assert 2.5 < float(low) <= float(high) < 2.9


def test_json(report):
    found = report("riverswim", "--length", 5)
    expected = evaluate(MODELS["riverswim"](5), [1] * 5)
    assert list(found) == [
        "model",
        "states",
        "transitions",
        "structure",
        "rewards_are_costs",
        "gain",
        "gain_low",
        "gain_high",
        "method",
        "iterations",
        "sweeps",
        "policy",
        "build_seconds",
        "solve_seconds",
        "evaluate_seconds",
    ]
    assert (found["model"], found["states"]) == ("RiverSwim, 5 states", 5)
    assert found["rewards_are_costs"] is False and found["method"] == "policy_iteration"
    assert found["gain_low"] <= expected.gain <= found["gain_high"]
    assert found["policy"] == {
        "left": {"states": 0.0, "time": 0.0},
        "right": {"states": 1.0, "time": pytest.approx(1)},
    }
    assert found["build_seconds"] >= 0 and found["solve_seconds"] >= 0
    assert found["evaluate_seconds"] >= 0


def test_json_of_costs(report):
    found = report("criss-cross", "--regime", "BL", "--size", 3, "--tolerance", 1e-5)
    mdp = MODELS["criss-cross"]("BL", 3)
    assert found["rewards_are_costs"] is True and found["gain"] < 0
    assert (found["states"], found["transitions"]) == (64, mdp.num_transitions)
    assert found["gain"] == pytest.approx(solve(mdp).gain, rel=1e-5)
    shares = found["policy"]
    assert list(shares) == list(mdp.actions)
    for share in ("states", "time"):
        assert sum(action[share] for action in shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("method", ["value_iteration", "linear_program"])
def test_methods(report, method):
    found = report("access-control", "--servers", 3, "--method", method)
    assert found["method"] == method and found["iterations"] > 1
    assert found["gain"] == pytest.approx(solve(access_control(3)).gain, rel=1e-7)


def test_lists_of_numbers(report):
    found = report("access-control", "--priorities", 1, 2.5, "--servers", 4)
    assert found["states"] == 10
    exact = solve(access_control(4, priorities=(1.0, 2.5))).gain
    assert found["gain"] == pytest.approx(exact)


def test_gymnasium(report, longrun_solve):
    """Episodes end in the holes and at the goal, so that 11 of 16 states are left."""
    found = report("FrozenLake-v1")
    assert found["states"] == 11 and found["model"].startswith("FrozenLake-v1")
    assert found["gain"] == pytest.approx(solve(from_gymnasium("FrozenLake-v1")).gain)
    assert found["gain"] == pytest.approx(11 / 612)
    out = longrun_solve("FrozenLake-v1", "--help").out
    assert "Gymnasium's FrozenLake-v1, continued through its resets." in out


def test_kemeny_on_request(report, longrun_solve):
    found = report("riverswim", "--kemeny")
    assert found["kemeny"] == pytest.approx(13.5037, abs=1e-4) and found["kemeny_error"] == 0
    assert "Kemeny's constant 13.5037" in longrun_solve("riverswim", "--kemeny").out


def test_large_models_are_evaluated_on_request(report, monkeypatch):
    monkeypatch.setattr("longrun.cli.solve.EVALUATED", 5)
    assert "time" not in report("riverswim")["policy"]["right"]
    assert report("riverswim", "--kemeny")["policy"]["right"]["time"] == pytest.approx(1)


def test_the_evaluation_can_be_left_out(report, longrun_solve):
    found = report("riverswim", "--no-kemeny")
    assert "kemeny" not in found and found["policy"]["right"] == {"states": 1.0}
    out = longrun_solve("riverswim", "--no-kemeny").out
    assert "Kemeny" not in out
    assert any("right" in line and line.count("%") == 1 and "-" in line for line in out.split("\n"))


def test_limits(report, longrun_solve):
    arguments = ("n-model", "--size", 8, "--limit", "customers_2=0.7", "--limit", "blocked=0.5")
    found = report(*arguments)
    exact = solve(MODELS["n-model"](size=8), limits={"customers_2": 0.7, "blocked": 0.5})
    assert found["gain"] == exact.gain and found["method"] == "linear_program"
    assert list(found["costs"]) == ["customers_1", "customers_2", "blocked"]
    assert found["costs"]["customers_1"]["limit"] is None
    second = found["costs"]["customers_2"]
    assert second["limit"] == 0.7 and second["excess"] == 0 and second["multiplier"] > 0
    assert second["rate"] == pytest.approx(0.7) and second["rate"] <= 0.7
    assert found["costs"]["blocked"]["multiplier"] == 0
    (place,) = found["randomised"]
    assert sum(place["actions"].values()) == pytest.approx(1) and len(place["actions"]) == 2
    assert sum(action["states"] for action in found["policy"].values()) == pytest.approx(1)
    assert sum(action["time"] for action in found["policy"].values()) == pytest.approx(1)
    lines = longrun_solve(*arguments).out.splitlines()
    assert lines[1].startswith("optimal average cost within the limits ")
    row = next(line.split("│")[1:-1] for line in lines if "customers_2" in line)
    assert [cell.strip() for cell in row[:3]] == ["customers_2", "0.7", "0.7"]
    state = ", ".join(map(str, place["state"]))
    assert any(line.startswith(f"randomises in state ({state}): serve class") for line in lines)


def test_limits_with_maps_and_smaller_boxes(report, longrun_solve, tmp_path):
    arguments = ("tandem", "--size", 8, "--limit", "blocked=0.005", "--check-truncation")
    found = report(
        *arguments[:3], "--limit", "blocked=0.1", *arguments[5:], "--map", tmp_path / "m.png"
    )
    assert found["truncation"]["sizes"] == [4, 6, 8]
    require_picture(tmp_path / "m.png")
    status, _, err = longrun_solve(*arguments)
    assert (
        status == 2
        and "--check-truncation: in a smaller box, no policy keeps blocked <= 0.005: " in err
    )


def test_truncation_is_checked(report, longrun_solve):
    arguments = ("criss-cross", "--regime", "IL", "--size", 8, "--check-truncation")
    found = report(*arguments)["truncation"]
    assert found["sizes"] == [4, 6, 8]
    gains = found["gains"]
    assert gains[0] > gains[1] > gains[2]
    assert 0 < found["error"] < gains[1] - gains[2]
    boxes = next(line for line in longrun_solve(*arguments).out.split("\n") if "boxes" in line)
    assert boxes == (
        f"boxes: 0.6678172 (size 4), {-gains[1]:.8g} (size 6), {-gains[2]:.8g} (size 8); "
        f"truncation error: about {found['error']:.2g}"
    )


@pytest.mark.parametrize("name", ["map.png", "[red] policy.svg"])
def test_maps(report, longrun_solve, tmp_path, name, monkeypatch):
    drawn = []

    def solution_map(mdp, policy, out):
        drawn.append((mdp.shape, policy.tolist()))
        draw(mdp, policy, out)

    draw = picture.solution_map
    monkeypatch.setattr(picture, "solution_map", solution_map)
    out = tmp_path / "new" / name
    assert report("tandem", "--size", 3, "--map", out)["map"] == str(out)
    require_picture(out)
    out.unlink()
    lines = longrun_solve("criss-cross", "--size", 2, "--map", out).out.splitlines()
    assert lines[-1] == f"wrote {out}"
    require_picture(out)
    models = [MODELS["tandem"](size=3), MODELS["criss-cross"](size=2)]
    assert drawn == [(mdp.shape, solve(mdp).policy.tolist()) for mdp in models]


def test_narrow_pipes_do_not_break_lines():
    """Other programs read one fact from each line, whatever COLUMNS is."""
    run = subprocess.run(
        [sys.executable, "-m", "longrun", "solve", "riverswim", "--no-kemeny"],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "20"},
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert (
        "RiverSwim, 6 states: 6 states, 22 transitions, communicating, unichain, aperiodic\n"
        in run.stdout
    )
    assert "optimal average reward 0.42862243, certified to " in run.stdout


# Wrong input: exit status 2, one line.

MULTICHAIN = ["garnet", "--states", "4", "--actions", "1", "--branching", "1", "--seed", "5"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tandme"], ["unknown model 'tandme'; did you mean tandem?"]),
        (["xyzzy"], ["unknown model 'xyzzy'; valid: access-control, admission"]),
        (["Frozen-v1"], ["environment 'Frozen-v1'", "FrozenLake"]),
        (["CartPole-v1"], ["CartPole-v1 has no transition table P"]),
        (["riverswim", "--lenght", "3"], ["'--lenght'; did you mean --length?"]),
        (["riverswim", "--length", "2.5"], ["--length: invalid whole number value: '2.5'"]),
        (["riverswim", "--length", "1"], ["length=1 is too small; give 2 or more"]),
        (["riverswim", "more"], ["'more' is not expected (see longrun solve riverswim --help)"]),
        (["FrozenLake-v1", "--size", "3"], ["unknown option", "'--size'"]),
        (["criss-cross", "--regime", "XX"], ["unknown regime 'XX'; valid: IL, BL"]),
        (["access-control", "--priorities"], ["--priorities: expected at least one argument"]),
        (["access-control", "--priorities", "x"], ["--priorities: invalid float value: 'x'"]),
        (
            ["riverswim", "--method", "howard"],
            ["unknown method 'howard'; valid: auto, policy_iter"],
        ),
        (["riverswim", "--tolerance", "2"], ["tolerance=2.0 is not between 0 and 1"]),
        (["riverswim", "--check-truncation"], ["--check-truncation is for models with a --size"]),
        (["tandem", "--size", "2", "--check-truncation"], ["give --size 3 or more"]),
        (["riverswim", "--map", "map.png"], ["needs a box of 2 or 3 sides; this model's is (6,)"]),
        (
            ["tandem", "--size", "2", "--map", "map.doc"],
            ["map.doc: '.doc' is not a picture"],
        ),
        (["tandem", "--limit", "blocked"], ["--limit: invalid NAME=RATE value: 'blocked'"]),
        (["tandem", "--limit", "=1"], ["--limit: invalid NAME=RATE value: '=1'"]),
        (["tandem", "--limit", "blocked=inf"], ["limit blocked=inf is not a finite number"]),
        (
            ["tandem", "--limit", "blocked=1", "--limit", "blocked=2"],
            ["--limit blocked is given twice; give one rate"],
        ),
        (
            ["tandem", "--size", "3", "--limit", "lost=1"],
            ["'lost', which is no cost; there are customers_1, customers_2, blocked"],
        ),
        (
            ["tandem", "--size", "3", "--limit", "blocked=0.001"],
            [
                "no policy keeps blocked <= 0.001: its least average is 0.",
            ],
        ),
        (
            ["tandem", "--size", "3", "--limit", "blocked=1", "--method", "value_iteration"],
            ["unknown method under limits 'value_iteration'; did you mean policy_iteration"],
        ),
        (MULTICHAIN, ["the model has 2 sets of states in which a policy can stay forever"]),
    ],
)
def test_wrong_input(longrun_solve, arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = longrun_solve(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("longrun: ") and err.count("\n") == 1
    for part in words:
        assert part in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--check-truncation"], ["--map", "policy.png"]])
def test_wrong_input_is_refused_before_the_model_is_solved(longrun_solve, arguments, monkeypatch):
    monkeypatch.setattr("longrun.cli.solve.solve", lambda *_, **__: pytest.fail("solved"))
    assert longrun_solve("riverswim", *arguments).status == 2


def test_a_bracket_that_rounding_keeps_open():
    """The answer, and a warning in one line, however narrow the terminal is."""
    run = subprocess.run(
        [sys.executable, "-m", "longrun", "solve", "riverswim", "--tolerance", "1e-17", "--json"],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "40"},
    )
    assert run.returncode == 0
    found = json.loads(run.stdout)
    assert found["gain_low"] < found["gain"] < found["gain_high"] < found["gain_low"] + 1e-11
    assert run.stderr.count("\n") == 1
    assert run.stderr.startswith("longrun: warning: policy_iteration stopped after ")
    assert run.stderr.endswith("; rounding does not allow more here; raise tolerance=1e-17\n")


def test_a_bracket_that_does_not_close(longrun_solve, monkeypatch):
    def stopped(*_, **__):
        raise NoConvergence("policy_iteration stopped after 200 iterations")

    monkeypatch.setattr("longrun.cli.solve.solve", stopped)
    status, out, err = longrun_solve("riverswim")
    assert (status, out, err) == (1, "", "longrun: policy_iteration stopped after 200 iterations\n")


def test_a_map_that_cannot_be_written(longrun_solve, tmp_path):
    (tmp_path / "file").write_text("")
    out = Path(tmp_path / "file" / "map.png")
    status, _, err = longrun_solve("tandem", "--size", 2, "--map", out)
    assert status == 1 and err.startswith("longrun: ") and err.count("\n") == 1
