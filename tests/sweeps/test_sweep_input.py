"""Options of `longrun sweep`: wrong input is one line, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from fake_workers import ENV, SLOW
from longrun.cli import main
from longrun.cli.options import parse
from longrun.cli.sweep import EXAMPLES, sweep_parser
from longrun.lab.sweeps.closing_table import finished_folders, flag

SEARCH = ["apo", "--search", "optuna", "--range", "gae_lambda=0.8:0.9"]
REFUSED: dict[str, tuple[list[str], str]] = {
    "no algorithm": ([], "sweep needs an algorithm; valid: apo, ppo, atrpo, trpo"),
    "an unknown algorithm": (["apo", "pppo"], "unknown algorithm 'pppo'; did you mean ppo"),
    "no environment": (["apo", "-no-env"], "sweep needs --env, for example"),
    "an algorithm twice": (["apo", "apo"], "an algorithm is named twice: apo; name each once"),
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
    "a value twice": (["apo", "--grid", "epochs=1,1e0"], "lists a value twice; list each once"),
    "an option twice": (
        ["apo", "--grid", "epochs=1", "--grid", "epochs=2"],
        "--grid names epochs twice; list all its values once",
    ),
    "grid against flag": (
        ["apo", "--gae-lambda", "0.9", "--grid", "gae_lambda=0.8"],
        "--gae-lambda contradicts gae_lambda in the grid; give one of the two",
    ),
    "grid against range": (
        ["apo", "--search", "random", "--grid", "epochs=1", "--range", "apo.epochs=1:2"],
        "--grid and --range both name epochs; give one of the two",
    ),
    "values that contradict each other": (
        ["apo", "--grid", "minibatch_size=64,4096"],
        "minibatch_size=4096 is larger than a rollout of num_envs=2 x rollout_steps=1000",
    ),
    "a search without a space": (
        ["apo", "--search", "random"],
        "--search random has nothing to search for apo; give --range or --grid",
    ),
    "an ablation of nothing": (
        ["apo", "--search", "ablation"],
        "--search ablation needs --grid, with the values to change one at a time",
    ),
    "a range in an ablation": (
        ["apo", "--search", "ablation", "--grid", "epochs=1", "--range", "gae_lambda=0.8:0.9"],
        "--range needs --search random or --search optuna",
    ),
    "a range without a search": (
        ["apo", "--range", "gae_lambda=0.8:0.9"],
        "--range needs --search random or --search optuna",
    ),
    "trials without a search": (["apo", "--trials", "0"], "--trials needs --search random"),
    "no trials": (
        ["apo", "--search", "random", "--trials", "0", "--range", "gae_lambda=0.8:0.9"],
        "trials=0 must be 1 or more, a whole number",
    ),
    "a range the wrong way round": (
        ["apo", "--search", "random", "--range", "gae_lambda=0.9:0.8"],
        "--range 'gae_lambda=0.9:0.8': LOW must be below HIGH",
    ),
    "an endless range": (
        ["apo", "--search", "random", "--range", "reset_cost=0:inf"],
        "LOW must be below HIGH, both finite",
    ),
    "a logarithm of nothing": (
        ["apo", "--search", "random", "--range", "gae_lambda=0:0.8:log"],
        "LOW must be above 0 for log",
    ),
    "half an environment": (
        ["apo", "--search", "random", "--range", "num_envs=0.5:4"],
        "LOW and HIGH of num_envs must be whole numbers",
    ),
    "a range of words": (
        ["apo", "--search", "random", "--range", "termination=0:1"],
        "termination is not numeric; list its values with --grid",
    ),
    "no range": (["apo", "--range", "gae_lambda=0.8"], "must look like learning_rate=1e-5:1e-3"),
    "a range that Optuna may not search": (
        ["apo", "--search", "optuna", "--range", "gae_lambda=0.8:1.5"],
        "gae_lambda=1.5 is out of range",
    ),
    "Optuna without evaluations": (
        ["apo", "--search", "optuna", "--range", "gae_lambda=0.8:0.9", "--no-eval"],
        "--search optuna needs evaluations; leave out --no-eval",
    ),
    "Optuna with evaluations never": (
        ["apo", "--search", "optuna", "--range", "gae_lambda=0.8:0.9", "--eval-every", "0"],
        "--search optuna needs evaluations; leave out --eval-every 0",
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
        "--metric needs --search optuna",
    ),
    "a reference without Optuna": (
        ["apo", "--reference", f"{ENV}=1"],
        "--reference needs --search optuna",
    ),
    "an unknown metric": (
        [*SEARCH, "--metric", "return"],
        "unknown --metric 'return'",
    ),
    "a reference without a number": (
        [*SEARCH, "--reference", ENV],
        f"--reference '{ENV}' must look like Ant-v5=4079",
    ),
    "a reference of nothing": (
        [*SEARCH, "--reference", f"{ENV}=0"],
        f"--reference {ENV}=0.0 must be a finite number other than 0",
    ),
    "two references": (
        [*SEARCH, "--reference", f"{ENV}=1", "--reference", f"{ENV}=2"],
        f"--reference names {ENV} twice",
    ),
    "an environment without a reference": (
        [*SEARCH, "--env", ENV, SLOW, "--reference", f"{ENV}=1"],
        f"--reference lacks {SLOW}; give one for each --env",
    ),
    "a reference without its environment": (
        [*SEARCH, "--reference", f"{ENV}=1", "--reference", f"{SLOW}=1"],
        f"--reference {SLOW} is not among --env",
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
    "an environment twice": (["apo", "--env", ENV, ENV], f"--env is named twice: {ENV}"),
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


@pytest.mark.parametrize("content", ["{", '{"id": "1"}', '{"id": "1", "runs": [{"name": 3}]}'])
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
    first, second, third = (SimpleNamespace(name=name) for name in "abc")
    plan = SimpleNamespace(runs=[first, second, third], folder=lambda run: Path(run.name))
    outcome = SimpleNamespace(finished=[third, first])
    assert finished_folders(plan, outcome) == [Path("a"), Path("c")]
