"""Options of `longrun sweep`: wrong input is one line, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from fake_workers import ENV, SLOW
from longrun.cli import main
from longrun.cli.options import parse
from longrun.cli.sweep import EXAMPLES, sweep_parser
from longrun.lab.sweeps.run_sweep import finished_folders, flag

SEARCH = ["apo", "--search", "optuna", "--range", "gae_lambda=0.8:0.9"]
REFUSED: dict[str, tuple[list[str], str]] = {
    "no algorithm": ([], "sweep needs an algorithm; valid: apo, ppo, atrpo, trpo"),
    "an unknown algorithm": (["apo", "pppo"], "unknown algorithm 'pppo'; did you mean ppo"),
    "no environment": (["apo", "-no-env"], "sweep needs --env, for example"),
    "an algorithm twice": (["apo", "apo"], "algorithms: 'apo' is listed twice; list each once"),
    "an unknown option": (
        ["apo", "--grid", "gae_lamda=0.9"],
        "unknown option 'gae_lamda'; did you mean gae_lambda",
    ),
    "an unknown option with text": (
        ["apo", "--grid", "terminaton=zero"],
        "unknown option 'terminaton'; did you mean termination",
    ),
    "an option of another algorithm": (
        ["apo", "--grid", "discount=0.9"],
        "unknown option of APO 'discount'; PPO, TRPO have it, APO does not",
    ),
    "an option of neither algorithm": (
        ["apo", "atrpo", "--grid", "discount=0.9"],
        "unknown option of APO, ATRPO 'discount'; PPO, TRPO have it, APO, ATRPO do not",
    ),
    "a flag of another algorithm": (
        ["apo", "--discount", "0.9"],
        "unknown option of longrun sweep '--discount'; PPO, TRPO have it, APO does not",
    ),
    "another library's name": (
        ["apo", "--grid", "lr=0.9"],
        "unknown option 'lr'; it is called learning_rate here",
    ),
    "a prefix that is not swept": (
        ["apo", "--grid", "ppo.discount=0.9"],
        "'ppo.discount' is not for an algorithm of this sweep; it has apo",
    ),
    "an empty grid": (["apo", "--grid", "gae_lambda="], "'gae_lambda=' must look like"),
    "no grid at all": (["apo", "--grid", "gae_lambda"], "'gae_lambda' must look like"),
    "an empty value": (["apo", "--grid", "epochs=1,,2"], "epochs='' must be a number"),
    "no number": (["apo", "--grid", "epochs=1,two"], "epochs='two' must be a number"),
    "no truth": (["apo", "--grid", "scale_rewards=1"], "'1' must be true or false"),
    "no sizes": (["apo", "--grid", "hidden_sizes=64,x"], "'x' must be sizes such as 64x64, or no"),
    "out of range": (["apo", "--grid", "gae_lambda=0.9,1.5"], "gae_lambda=1.5 is out of range"),
    "a value twice": (
        ["apo", "--grid", "epochs=1,1e0"],
        "epochs: 1 is listed twice",
    ),
    "an option twice": (
        ["apo", "--grid", "epochs=1", "--grid", "epochs=2"],
        "--grid names epochs twice; give it once, with all its values",
    ),
    "grid against flag": (
        ["apo", "--gae-lambda", "0.9", "--grid", "gae_lambda=0.8"],
        "gae_lambda has a value and a grid or range; give one of the two",
    ),
    "grid against range": (
        ["apo", "--search", "random", "--grid", "epochs=1", "--range", "apo.epochs=1:2"],
        "epochs has a grid and a range; give one of the two",
    ),
    "values that contradict each other": (
        ["apo", "--grid", "minibatch_size=64,4096"],
        "minibatch_size=4096 is larger than a rollout of num_envs=2 x rollout_steps=1000",
    ),
    "a search without a space": (
        ["apo", "--search", "random"],
        "search=random has nothing to search for apo; give a range or a grid",
    ),
    "an ablation of nothing": (
        ["apo", "--search", "ablation"],
        "search=ablation needs a grid: the values to change one at a time",
    ),
    "a range in an ablation": (
        ["apo", "--search", "ablation", "--grid", "epochs=1", "--range", "gae_lambda=0.8:0.9"],
        "ranges needs search=random or search=optuna",
    ),
    "a range without a search": (
        ["apo", "--range", "gae_lambda=0.8:0.9"],
        "ranges needs search=random or search=optuna",
    ),
    "trials without a search": (
        ["apo", "--trials", "0"],
        "trials needs search=random or search=optuna",
    ),
    "no trials": (
        ["apo", "--search", "random", "--trials", "0", "--range", "gae_lambda=0.8:0.9"],
        "trials=0 must be 1 or more, a whole number",
    ),
    "a range the wrong way round": (
        ["apo", "--search", "random", "--range", "gae_lambda=0.9:0.8"],
        "range of gae_lambda: [0.9, 0.8]: low must be below high",
    ),
    "an endless range": (
        ["apo", "--search", "random", "--range", "reset_cost=0:inf"],
        "low must be below high, both finite",
    ),
    "a logarithm of nothing": (
        ["apo", "--search", "random", "--range", "gae_lambda=0:0.8:log"],
        "low must be above 0 for log",
    ),
    "half an environment": (
        ["apo", "--search", "random", "--range", "num_envs=0.5:4"],
        "low and high of num_envs must be whole numbers",
    ),
    "a range of words": (
        ["apo", "--search", "random", "--range", "termination=0:1"],
        "termination is not numeric; list its values in a grid",
    ),
    "no range": (["apo", "--range", "gae_lambda=0.8"], "must look like learning_rate=1e-5:1e-3"),
    "a range that Optuna may not search": (
        ["apo", "--search", "optuna", "--range", "gae_lambda=0.8:1.5"],
        "gae_lambda=1.5 is out of range",
    ),
    "Optuna without evaluations": (
        ["apo", "--search", "optuna", "--range", "gae_lambda=0.8:0.9", "--no-eval"],
        "search=optuna needs evaluations, and eval_every=0 has none",
    ),
    "Optuna with evaluations never": (
        ["apo", "--search", "optuna", "--range", "gae_lambda=0.8:0.9", "--eval-every", "0"],
        "search=optuna needs evaluations, and eval_every=0 has none",
    ),
    "a metric without Optuna": (
        [
            "apo",
            "--search",
            "random",
            "--range",
            "gae_lambda=0.8:0.9",
            "--metric",
            "average_reward",
        ],
        "metric needs search=optuna",
    ),
    "a reference without Optuna": (
        ["apo", "--reference", f"{ENV}=1"],
        "references needs search=optuna",
    ),
    "an unknown metric": (
        [*SEARCH, "--metric", "return"],
        "unknown metric 'return'",
    ),
    "a reference without a number": (
        [*SEARCH, "--reference", ENV],
        f"--reference '{ENV}' must look like Ant-v5=4079",
    ),
    "a reference of nothing": (
        [*SEARCH, "--reference", f"{ENV}=0"],
        f"the reference {ENV}=0.0 must be a number other than 0",
    ),
    "two references": (
        [*SEARCH, "--reference", f"{ENV}=1", "--reference", f"{ENV}=2"],
        f"--reference names {ENV} twice",
    ),
    "an environment without a reference": (
        [*SEARCH, "--env", ENV, SLOW, "--reference", f"{ENV}=1"],
        f"{SLOW} has no reference; give one for each environment",
    ),
    "a reference without its environment": (
        [*SEARCH, "--reference", f"{ENV}=1", "--reference", f"{SLOW}=1"],
        f"the reference of '{SLOW}' is for none of the environments",
    ),
    "two options at once": (
        ["apo", "--grid", "num_envs+rollout_steps=10+200"],
        "unknown option 'num_envs+rollout_steps'",
    ),
    "an unknown search": (["apo", "--search", "optima"], "'optima'; did you mean optuna"),
    "an unknown preset": (["apo", "--preset", "papr"], "unknown preset 'papr'; did you mean paper"),
    "no steps": (["apo", "--steps", "0"], "steps=0 must be 1 or more"),
    "no seeds": (["apo", "--seeds", "0"], "seeds=0 must be 1 or more"),
    "less than no evaluation": (["apo", "--eval-every", "-1"], "eval_every=-1 must be 0 or more"),
    "no workers": (["apo", "--workers", "0"], "workers=0 must be 1 or more"),
    "less than no retries": (["apo", "--retries", "-1"], "retries=-1 must be 0 or more"),
    "an unknown environment": (["apo", "--env", "Swimer-v5"], "did you mean Swimmer-v5"),
    "an environment twice": (
        ["apo", "--env", ENV, ENV],
        f"envs: '{ENV}' is listed twice",
    ),
    "resuming something else": (
        ["apo", "--resume"],
        "--resume takes the sweep as it is in --out; leave out --env",
    ),
    "resuming with a grid": (
        ["-no-env", "--resume", "--grid", "epochs=1"],
        "--resume takes the sweep as it is in --out; leave out --grid",
    ),
    "resuming nothing": (["-no-env", "--resume"], "is not a sweep folder: it has no sweep.json"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_input_is_refused_in_one_line(what, tmp_path, capsys):
    words, expected = REFUSED[what]
    env = [] if "--env" in words or "-no-env" in words else ["--env", ENV]
    words = [word for word in words if word != "-no-env"]
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    arguments = [*words[:first], *env, "--out", str(tmp_path / "sweep"), *words[first:]]
    assert main(["sweep", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("longrun: ")
    assert error.count("\n") == 1
    assert expected in error
    assert not (tmp_path / "sweep" / "runs").exists()


def test_a_folder_that_is_not_a_sweep_is_not_changed(tmp_path, capsys):
    (tmp_path / "letter.txt").write_text("dear")
    assert main(["sweep", "apo", "--env", ENV, "--out", str(tmp_path)]) == 2
    assert "is not empty and is not a sweep folder; choose another --out" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


DAMAGED = ["{", "[]", '{"format": 4}', '{"format": 4, "runs": {"a": {"format": 4}}}']


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_sweep_json_is_reported(content, tmp_path, capsys):
    (tmp_path / "sweep.json").write_text(content)
    assert main(["sweep", "--resume", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "sweep.json' is damaged" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("gae_lambda", 0.9, "--gae-lambda 0.9"),
        ("scale_rewards", True, "--scale-rewards"),
        ("scale_rewards", False, "--no-scale-rewards"),
        ("hidden_sizes", [64, 32], "--hidden-sizes 64 32"),
        ("costs", ["terminated", "fuel"], "--costs terminated fuel"),
        ("limits", [["terminated", 0.001]], "--limit terminated=0.001"),
        (
            "limits",
            [["terminated", 0.001], ["fuel", 2.0]],
            "--limit terminated=0.001 --limit fuel=2.0",
        ),
        ("limits", {"fuel": 0.5}, "--limit fuel=0.5"),
        ("limits", [], ""),
        ("costs", [], ""),
        ("value_hidden_sizes", [], ""),
        ("hidden_sizes", [], "--grid hidden_sizes=none"),
    ],
)
def test_the_best_options_are_written_as_flags_of_train(option, value, expected):
    assert flag(option, value) == expected
    parsed = parse(sweep_parser(["apo"]), expected.split())
    assert "limits" not in parsed or dict(parsed["limits"]) == dict(value)


def test_the_examples_of_the_help_are_parsed():
    text = EXAMPLES.replace("\\\n", "")
    commands = [line.split()[2:] for line in text.splitlines() if line.startswith("  longrun")]
    assert len(commands) == 7
    for command in commands:
        algorithms = [word for word in command[:2] if not word.startswith("-")]
        assert parse(sweep_parser(algorithms), command[len(algorithms) :])


def test_finished_runs_are_in_the_order_of_the_plan_and_not_of_their_ends():
    plan = SimpleNamespace(runs=dict.fromkeys("abc"), folder=Path)
    outcome = SimpleNamespace(finished=["c", "a"])
    assert finished_folders(plan, outcome) == [Path("a"), Path("c")]
