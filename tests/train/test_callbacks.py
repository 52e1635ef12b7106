"""`on_log` sees the agent that has learned so far; and the callbacks of `longrun.callbacks`."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from command_line import call, refused, train_arguments
from longrun import APO, EvaluationReport, InputError, LongrunError, Progress, callbacks
from longrun.base.files import write_json
from tiny_envs import ITERATION, TINY, Drift, bits

NATIVE = {"num_envs": 4, "rollout_steps": 16, "minibatch_size": 32, "hidden_sizes": (8,)}


@pytest.mark.parametrize(
    "native", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["host", "device"]
)
def test_a_callback_sees_and_saves_what_has_been_learned(native: bool, tmp_path: Path) -> None:
    agent = APO("jax:criss-cross", **NATIVE) if native else APO(Drift, num_workers=0, **TINY)
    env = None if native else Drift
    start = bits(agent.snapshot)
    seen: list[int] = []

    def on_log(progress: Any) -> bool:
        assert agent.steps_ >= progress.step
        assert bits(agent.snapshot) != start
        assert agent.evaluate(steps=50).steps >= 50
        agent.save(tmp_path / "best")
        agent.save(tmp_path / "run")
        saved = APO.load(tmp_path / "best", env)
        assert bits(saved.snapshot) == bits(agent.snapshot)
        seen.append(agent.steps_)
        return len(seen) < 3

    agent.learn(20 * ITERATION, log_dir=tmp_path / "run", on_log=on_log, eval_every=0)
    assert len(seen) >= 3 and seen == sorted(seen)
    agent.learn(ITERATION, log_dir=tmp_path / "run", eval_steps=50)


def test_what_a_callback_returns_is_what_stops_a_run() -> None:
    agent = APO(Drift, num_workers=0, **TINY)
    assert agent.learn(3 * ITERATION, on_log=lambda _: None).steps_ == 3 * ITERATION
    assert agent.learn(3 * ITERATION, on_log=lambda _: 0).steps_ == 6 * ITERATION
    assert agent.learn(3 * ITERATION, on_log=lambda _: False).steps_ == 7 * ITERATION


# Those of `longrun.callbacks`.


def progress(
    step: int, average_reward: float | None = None, replica: int = 0, replicas: int = 1
) -> Progress:
    evaluation = None
    if average_reward is not None:
        evaluation = EvaluationReport(average_reward, 0.0, 1.0, math.nan, math.nan, 0, 100)
    run: Any = SimpleNamespace(spec=SimpleNamespace(seeds=range(7, 7 + replicas)))
    metrics = {"reward": 1.5}
    return Progress(replica, 7 + replica, step, step, 1000, 50.0, metrics, evaluation, run)


def first_stop(callback: Any, rewards: Sequence[float | None]) -> int:
    """The number of the call that returns False; -1 if none does."""
    answers = [callback(progress(i, reward)) for i, reward in enumerate(rewards)]
    return answers.index(False) if False in answers else -1


def test_stop_at_a_reward_rate() -> None:
    assert first_stop(callbacks.stop_at(2.0), [None, 1.0, None, 2.0]) == 3
    assert first_stop(callbacks.stop_at(2.0), [1.0, 1.999, None]) == -1


def test_stop_at_waits_for_every_replica() -> None:
    stop = callbacks.stop_at(2.0)
    assert stop(progress(1, 3.0, 0, 2)) is True
    assert stop(progress(2, 3.0, 0, 2)) is True
    assert stop(progress(3, 2.0, 1, 2)) is False


def test_stop_on_a_plateau() -> None:
    rewards = [1.0, 2.0, None, 1.5, 2.0, 3.0]
    assert first_stop(callbacks.stop_on_plateau(2), rewards) == 4
    assert first_stop(callbacks.stop_on_plateau(3), rewards) == -1
    assert first_stop(callbacks.stop_on_plateau(2, min_improvement=1.5), rewards) == 3
    with pytest.raises(InputError, match="evaluations=0"):
        callbacks.stop_on_plateau(0)


def test_a_stop_says_when_and_why(capsys: Any) -> None:
    assert first_stop(callbacks.stop_at(2.0), [None, 1.0, 3.25]) == 2
    why = "the evaluation has 3.25 per step, and stop_at is 2"
    assert capsys.readouterr().err == f"longrun: stopped after 2 of 1,000 steps: {why}\n"
    assert first_stop(callbacks.stop_on_plateau(2), [1.0, 2.5, None, 1.5, 2.0]) == 4
    assert capsys.readouterr().err == (
        "longrun: stopped after 4 of 1,000 steps: stop_on_plateau found none above the best"
        " evaluation, 2.5 per step at 1 steps, in 2 more\n"
    )


def test_an_end_is_no_stop(capsys: Any) -> None:
    assert callbacks.stop_at(2.0)(progress(1000, 3.0)) is False
    assert capsys.readouterr().err == ""


def test_several_callbacks_are_all_called_and_one_stops() -> None:
    agent = APO(Drift, num_workers=0, **TINY)
    seen: list[str] = []
    agent.learn(
        5 * ITERATION,
        on_log=[lambda _: seen.append("a"), lambda _: len(seen) < 3, lambda _: seen.append("b")],
    )
    assert seen == ["a", "b"] * 2
    with pytest.raises(InputError, match="on_log='wandb' must be a function"):
        agent.learn(ITERATION, on_log=["wandb"])  # type: ignore[list-item]


def test_a_callback_gets_every_event_of_a_call_in_which_it_stops_the_run() -> None:
    """On a device a call of the program reports several iterations at once."""
    seen: list[int] = []
    agent = APO("jax:criss-cross", **NATIVE)

    def on_log(progress: Progress) -> bool:
        seen.append(progress.step)
        return len(seen) != 3  # the first two calls have one iteration each, the third has more

    agent.learn(40 * ITERATION, on_log=on_log)
    assert seen == list(range(ITERATION, agent.steps_ + 1, ITERATION))
    assert len(seen) < 40


@pytest.mark.parametrize("native", [False, True], ids=["host", "device"])
def test_evaluations_are_kept_without_a_folder(native: bool) -> None:
    agent = APO("jax:criss-cross", **NATIVE) if native else APO(Drift, num_workers=0, **TINY)
    assert agent.evaluations == []
    agent.learn(3 * ITERATION, eval_every=2 * ITERATION, eval_steps=50)
    agent.learn(ITERATION, eval_every=ITERATION, eval_steps=50)
    assert [step for step, _ in agent.evaluations] == [n * ITERATION for n in (2, 3, 4)]
    assert all(isinstance(each, EvaluationReport) for _, each in agent.evaluations)


def test_a_callback_finds_the_evaluation_in_the_agent() -> None:
    agent = APO(Drift, num_workers=0, **TINY)

    def on_log(progress: Progress) -> None:
        assert agent.evaluations[-1] == (progress.step, progress.evaluation)

    agent.learn(2 * ITERATION, eval_every=ITERATION, eval_steps=50, on_log=on_log)
    assert len(agent.evaluations) == 2


def test_a_callback_that_needs_evaluations_is_refused_without_them(tmp_path: Path) -> None:
    agent = APO(Drift, num_workers=0, **TINY)
    with pytest.raises(InputError, match="stop_at needs evaluations; set eval_every"):
        agent.learn(ITERATION, log_dir=tmp_path / "run", eval_every=0, on_log=callbacks.stop_at(1))
    assert not (tmp_path / "run").exists()


def noted(path: Path) -> dict[int, float]:
    """Average rewards by step, from evaluations.csv."""
    lines = (path / "evaluations.csv").read_text().splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    return {int(row["step"]): float(row["average_reward"]) for row in rows}


@pytest.mark.parametrize("native", [False, True], ids=["host", "device"])
def test_the_best_agent_is_the_one_of_the_best_evaluation(native: bool, tmp_path: Path) -> None:
    agent = APO("jax:criss-cross", **NATIVE) if native else APO(Drift, num_workers=0, **TINY)
    path, states = tmp_path / "run", {}

    def remember(progress: Any) -> None:
        states[agent.steps_] = bits(agent.state)

    settings: dict[str, Any] = {"log_dir": path, "eval_every": ITERATION, "eval_steps": 50}
    agent.learn(4 * ITERATION, on_log=[callbacks.save_best(), remember], **settings)
    rewards = noted(path)
    step = max(rewards, key=lambda step: rewards[step])
    best = APO.load(path / "best", None if native else Drift)
    assert best.steps_ == step
    assert bits(best.state) == states[step]
    (row,) = json.loads((path / "best" / "best.json").read_text())
    assert (row["step"], row["seed"]) == (step, 0)
    assert row["average_reward"] == pytest.approx(rewards[step], rel=1e-5)
    # Resumed by another callback, a worse evaluation replaces nothing.
    before = (path / "best" / "checkpoint.json").read_bytes()
    write_json(path / "best" / "best.json", [row | {"average_reward": 1e9}])
    agent.learn(ITERATION, on_log=callbacks.save_best(), **settings)
    assert (path / "best" / "checkpoint.json").read_bytes() == before


def test_a_new_run_does_not_compare_itself_with_an_older_one(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"eval_every": ITERATION, "eval_steps": 50}
    for seed in (0, 1):
        agent = APO(Drift, num_workers=0, seed=seed, **TINY)
        save = callbacks.save_best(tmp_path / "best")
        agent.learn(ITERATION, on_log=save, **settings)
        assert APO.load(tmp_path / "best", Drift).seed == seed
        write_json(tmp_path / "best" / "best.json", [{"seed": 0, "step": 1, "average_reward": 1e9}])


def test_copies_are_saved_every_so_many_steps(tmp_path: Path) -> None:
    agent = APO(Drift, num_workers=0, **TINY)
    save = callbacks.save_every(2 * ITERATION)
    agent.learn(5 * ITERATION, log_dir=tmp_path / "run", eval_every=0, on_log=save)
    copies = sorted((tmp_path / "run" / "copies").iterdir())
    assert [copy.name for copy in copies] == ["step-000000128", "step-000000256"]
    assert APO.load(copies[1], Drift).steps_ == 4 * ITERATION
    # Resumed by another callback, the next copy is that of the next multiple.
    save = callbacks.save_every(4 * ITERATION)
    agent.learn(4 * ITERATION, log_dir=tmp_path / "run", eval_every=0, on_log=save)
    assert len(list((tmp_path / "run" / "copies").iterdir())) == 3
    assert APO.load(tmp_path / "run" / "copies" / "step-000000512", Drift).steps_ == 8 * ITERATION
    for callback in (callbacks.save_best(), callbacks.save_every(1)):
        with pytest.raises(InputError, match="give log_dir to learn"):
            agent.learn(ITERATION, on_log=callback, eval_every=ITERATION, eval_steps=50)


class FakeWandb(ModuleType):
    """What is used of the package, recorded."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.runs: list[Any] = []

    def init(self, **settings: Any) -> Any:
        run = SimpleNamespace(settings=settings, rows=[], finished=False)
        run.log = lambda data, step: run.rows.append((step, data))
        run.finish = lambda: setattr(run, "finished", True)
        self.runs.append(run)
        return run


def test_metrics_go_to_wandb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    agent = APO(Drift, num_workers=0, seed=3, **TINY)
    agent.learn(
        2 * ITERATION,
        log_dir=tmp_path / "swing",
        eval_every=2 * ITERATION,
        eval_steps=50,
        on_log=callbacks.to_wandb("plant", tags=["test"]),
    )
    (run,) = fake.runs
    assert (run.settings["project"], run.settings["tags"]) == ("plant", ["test"])
    assert run.settings["name"] == "swing-seed3"
    assert run.settings["config"]["algorithm"] == "apo"
    assert run.settings["config"]["hidden_sizes"] == (8,)
    assert [step for step, _ in run.rows] == [ITERATION, 2 * ITERATION]
    assert "evaluation/average_reward" not in run.rows[0][1]
    last = run.rows[1][1]
    assert math.isfinite(last["evaluation/average_reward"])
    assert "evaluation/episode_return" not in last  # no episode ended, so it is NaN
    assert last["train/reward"] < 0 < last["train/entropy"]
    assert run.finished


def test_each_call_of_learn_has_runs_of_its_own_at_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    agent = APO(Drift, num_workers=0, **TINY)
    track = callbacks.to_wandb("plant")
    for _ in range(2):
        agent.learn(ITERATION, on_log=track)
    assert [[step for step, _ in run.rows] for run in fake.runs] == [[ITERATION], [2 * ITERATION]]
    assert all(run.finished for run in fake.runs)


class FakeMlflow(ModuleType):
    """What is used of the package, recorded."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.calls: list[Any] = []
        self.entities = SimpleNamespace(Metric=lambda *facts: facts)

    def MlflowClient(self) -> Any:
        calls = self.calls
        return SimpleNamespace(
            get_experiment_by_name=lambda name: None,
            create_experiment=lambda name: f"place of {name}",
            create_run=lambda place, run_name: (
                calls.append((place, run_name)) or SimpleNamespace(info=SimpleNamespace(run_id="r"))
            ),
            log_param=lambda run, name, value: calls.append((run, name, value)),
            log_batch=lambda run, metrics: calls.append((run, metrics)),
            set_terminated=lambda run: calls.append((run, "ended")),
        )


def test_metrics_go_to_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    agent = APO(Drift, num_workers=0, **TINY)

    def interrupt(_: Any) -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        agent.learn(ITERATION, on_log=[callbacks.to_mlflow("plant"), interrupt])
    assert fake.calls[0] == ("place of plant", "apo-Drift-seed0")
    assert ("r", "seed", 0) in fake.calls
    (_, metrics), ending = fake.calls[-2:]
    assert {name: (value, step) for name, value, _, step in metrics}["train/reward"][1] == ITERATION
    assert ending == ("r", "ended")


def test_each_call_of_learn_has_runs_of_its_own_at_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    agent = APO(Drift, num_workers=0, **TINY)
    track = callbacks.to_mlflow("plant")
    for _ in range(2):
        agent.learn(ITERATION, on_log=track)
    assert fake.calls.count(("place of plant", "apo-Drift-seed0")) == 2
    assert fake.calls.count(("r", "ended")) == 2


@pytest.mark.parametrize("package", ["wandb", "mlflow"])
def test_a_tracker_that_cannot_start_is_one_line(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, ModuleType(package))  # without any function
    agent = APO(Drift, num_workers=0, **TINY)
    callback = getattr(callbacks, f"to_{package}")("plant")
    with pytest.raises(LongrunError, match="cannot start a run: module"):
        agent.learn(ITERATION, on_log=callback)


@pytest.mark.parametrize("package", ["wandb", "mlflow"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=f"pip install {package}"):
        getattr(callbacks, f"to_{package}")("plant")


# On the command line.


def test_the_command_stops(tmp_path: Path, capsys: Any) -> None:
    result = call(capsys, *train_arguments(tmp_path / "run", "--stop-at", "-1000"))
    assert result.status == 0, result.err
    assert result.err.startswith(f"longrun: stopped after {ITERATION:,} of ")
    assert result.err.endswith(" per step, and stop_at is -1000\n")


def test_the_command_saves_the_best_of_each_replica(tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"
    more = ("--seeds", "2", "--save-best", "--steps", str(ITERATION))
    result = call(capsys, *train_arguments(run, *more))
    assert result.status == 0, result.err
    rows = json.loads((run / "best" / "best.json").read_text())
    assert [row["seed"] for row in rows] == [0, 1]
    for replica, row in enumerate(rows):
        assert APO.load(run / "best", replica=replica).steps_ == row["step"] == ITERATION
    # A replica that is better already when the run is resumed keeps its snapshot.
    changed = [rows[0] | {"average_reward": 1e9}, rows[1] | {"average_reward": -1e9}]
    write_json(run / "best" / "best.json", changed)
    more = ("--save-best", "--steps", str(2 * ITERATION), "--quiet")
    result = call(capsys, "train", "--resume", "--out", run, *more)
    assert result.status == 0, result.err
    steps = [APO.load(run / "best", replica=replica).steps_ for replica in (0, 1)]
    assert steps == [ITERATION, 2 * ITERATION]


def test_options_that_cannot_be_followed_are_refused(tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"
    for flag, never in (("--save-best", ["--no-eval"]), ("--stop-at=1", ["--eval-every", "0"])):
        name = flag.removeprefix("--").partition("=")[0].replace("-", "_")
        refused(
            call(capsys, *train_arguments(run, *never, flag)),
            f"{name} needs evaluations; set eval_every, such as 10_000\n",
        )
    refused(call(capsys, *train_arguments(run, "--wandb", "plant")), "pip install wandb")
    assert not run.exists()


def test_the_best_copy_names_its_preset(tmp_path: Path) -> None:
    agent = APO(Drift, preset="queueing", num_workers=0, **TINY)
    best = callbacks.save_best(tmp_path / "best")
    agent.learn(ITERATION, on_log=best, eval_every=ITERATION, eval_steps=50)
    again = APO.load(tmp_path / "best", Drift, num_workers=0)
    again.learn(ITERATION, log_dir=tmp_path / "run", eval_every=0)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["preset"] == "queueing"
