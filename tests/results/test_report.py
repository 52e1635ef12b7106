"""The report: its numbers, that nothing in the data can harm the file, its pictures."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gymnasium.vector import SyncVectorEnv

from fake_runs import change_config, fake_run
from longrun import APO, InputError, compare
from longrun.base.files import write_json
from longrun.cli.report import report_command
from longrun.lab.report import page
from longrun.lab.report.data import page_data
from longrun.lab.report.page import as_json, write_report
from longrun.lab.report.rendering import _open
from longrun.lab.report.runs import read_folder
from longrun.lab.results.metric_names import TRAINING
from longrun.learning.runs.run_folder import RunFolder
from report_runs import NASTY, report_run, report_sweep
from tiny_envs import Drift


def data_of(path: Path) -> dict[str, Any]:
    return page_data(read_folder(path))


def embedded(page: Path) -> dict[str, Any]:
    """The data in the file."""
    found = re.search(r'id="data">(.*?)</script>', page.read_text())
    assert found is not None
    return json.loads(found[1])


# Numbers.


def test_final_figures_are_means_over_seeds_with_students_interval(tmp_path):
    run = report_run(tmp_path, [[1, 1], [1, 2], [1, 3], [1, 4], [1, 5]])
    [setting] = data_of(run)["settings"]
    found = setting["final"]["average_reward"]
    reach = 2.776 * 0.7071  # Student's with four degrees of freedom, times sqrt(2.5 / 5)
    assert (found["mean"], found["scores"]) == (3, [])
    assert (found["low"], found["high"]) == pytest.approx((3 - reach, 3 + reach), abs=1e-3)
    assert setting["final"]["episode_return"]["mean"] == 30
    assert setting["final"]["episode_average_reward"]["mean"] == 3  # episodes of 10 steps
    assert setting["final"]["iqm"]["mean"] == 3
    assert (setting["step"], setting["seeds"]) == (2000, [0, 1, 2, 3, 4])


def test_the_note_counts_evaluations_that_have_not_settled(tmp_path):
    run = fake_run(tmp_path / "run", {1000: 1.0}, {1000: 2.0}, unsettled=[1000])
    words = "2 of 2 evaluations in the final scores had not settled (APO: 2)"
    assert data_of(run)["unsettled"] == f" {words}; --eval-steps N gives longer ones."
    assert data_of(fake_run(tmp_path / "other", {1000: 1.0}))["unsettled"] == ""


def test_few_seeds_are_shown_instead_of_an_interval(tmp_path):
    data = data_of(report_run(tmp_path, [[1, 2], [1, 4]]))
    [setting] = data["settings"]
    expected = {"mean": 3, "low": None, "high": None, "scores": [2, 4]}
    assert setting["final"]["average_reward"] == setting["final"]["iqm"] == expected
    assert data["result"] == "APO on Swimmer-v5: average reward 3, 2 seeds."


def test_final_figures_are_the_final_scores_that_are_compared(tmp_path):
    """The last tenth of 40 evaluations: 37 to 40, and 77 to 80."""
    run = report_run(tmp_path, [range(1, 41), range(41, 81)])
    [setting] = data_of(run)["settings"]
    assert setting["final"]["average_reward"]["mean"] == (38.5 + 78.5) / 2
    (row,) = compare(run, "average_reward").rows
    assert row.aggregates["mean"].value == setting["final"]["average_reward"]["mean"]
    assert row.aggregates["iqm"].value == setting["final"]["iqm"]["mean"]


def test_curves_have_every_seed_and_their_mean(tmp_path):
    [setting] = data_of(report_run(tmp_path, [[1, 2], [1, 4]]))["settings"]
    assert setting["evaluation"]["steps"] == [1000, 2000]
    curve = setting["evaluation"]["curves"]["average_reward"]
    assert (curve["seeds"], curve["mean"]) == ([[1, 2], [1, 4]], [1, 3])
    assert "low" not in curve and "high" not in curve  # two seeds have no interval


def test_curves_of_five_seeds_have_an_interval(tmp_path):
    [setting] = data_of(report_run(tmp_path, [[1, k] for k in range(5)]))["settings"]
    curve = setting["evaluation"]["curves"]["average_reward"]
    assert curve["low"][0] == curve["high"][0] == 1
    assert curve["low"][1] < curve["mean"][1] == 2 < curve["high"][1]


def test_the_mean_of_a_single_seed_is_not_written_twice(tmp_path):
    [setting] = data_of(report_run(tmp_path, [[1, 2]]))["settings"]
    assert setting["evaluation"]["curves"]["average_reward"] == {"seeds": [[1, 2]]}


def test_seeds_of_several_runs_are_one_setting(tmp_path):
    data = data_of(report_sweep(tmp_path))
    found = {(s["env"], s["choices"].get("value_constraint")): s for s in data["settings"]}
    assert len(data["settings"]) == 5
    assert found["Swimmer-v5", "0.1"]["seeds"] == [0, 1]
    assert found["Swimmer-v5", "0.1"]["final"]["average_reward"]["mean"] == 6
    assert found["Swimmer-v5", "0.1"]["best"] and not found["Swimmer-v5", "0.0"]["best"]
    assert found["Swimmer-v5", "0.0"]["final"]["improvement"]["mean"] == 0  # 2, 4 against 5, 7
    assert "improvement" not in found["Swimmer-v5", "0.1"]["final"]
    assert {f["name"]: f["values"] for f in data["filters"]} == {
        "algorithm": ["apo", "ppo"],
        "value_constraint": ["0.0", "0.1", "0.3"],
    }


def test_training_metrics_are_thinned_to_means_of_blocks(tmp_path):
    [setting] = data_of(report_run(tmp_path, [[1.0]], iterations=1000))["settings"]
    training = setting["training"]
    assert len(training["steps"]) == 200
    assert training["steps"][:2] == [50, 100]
    assert training["curves"]["gain"]["seeds"][0][:2] == [3, 8]  # means of 1..5 and 6..10
    assert set(training["curves"]) == {"gain", "kl"}


def test_lambda_and_terminations_are_drawn_where_they_are_columns(tmp_path):
    columns = {
        "odd": [1.0, 1.0],
        "kl": [0.5, 0.5],
        "lambda": [0.99, 0.98],
        "terminations": [0.01, 0.0],
    }
    run = fake_run(tmp_path, {1000: 1.0}, metrics=columns)
    labels = [m["label"] for m in data_of(run)["metrics"] if m["kind"] == "training"]
    assert labels == ["KL divergence of a policy step", "lambda", "terminations per step"]


def test_the_result_names_the_setting_with_the_highest_average_reward(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    report_run(one / "runs" / "a", [[2.0], [2.1], [2.2], [2.1], [2.1]], value_constraint=0.0)
    report_run(one / "runs" / "b", [[5.0], [5.1], [5.2], [5.1], [5.1]], value_constraint=0.3)
    write_json(one / "sweep.json", {"runs": {}})
    assert data_of(one)["result"] == (
        "APO value_constraint=0.3 is best of 2 settings on Swimmer-v5: average reward 5.1 [5, 5.2],"
        " 5 seeds."
    )
    several = data_of(report_sweep(two))["result"]
    assert several == (
        "Too few seeds (1) for a verdict between 2 settings on Hopper-v5; APO value_constraint=0.1"
        " has the highest average reward, 9;"
        " Too few seeds (1) for a verdict between 3 settings on Swimmer-v5; APO"
        " value_constraint=0.1 has the highest average reward, 6."
    )


def test_options_tell_what_differs_and_what_is_not_the_default(tmp_path):
    options = {o["name"]: o for o in data_of(report_sweep(tmp_path))["options"]}
    assert options["value_constraint"]["differs"] and not options["gae_lambda"]["differs"]
    assert options["gae_lambda"]["values"] == [options["gae_lambda"]["default"]] == ["0.9"]
    # APO has no discount: what only some have is listed with their names.
    assert options["discount"]["label"] == "discount (PPO)"
    assert options["value_constraint"]["label"] == "value_constraint (APO)"
    assert options["gae_lambda"]["label"] == "gae_lambda"


def test_changed_is_what_is_not_the_default_of_the_settings_own_preset(tmp_path):
    run = {"options": [{"adaptive_lambda": True}], "env": "Swimmer-v5"}
    fake_run(tmp_path / "apo", {1000: 1.0}, **run)  # True is APO's default, and not PPO's
    fake_run(tmp_path / "ppo", {1000: 1.0}, algorithm="ppo", **run)
    fake_run(tmp_path / "clip", {1000: 1.0}, options=[{"clip_range": 0.1}], env="Swimmer-v5")
    data = data_of(tmp_path)
    found = {s["label"]: s["changed"] for s in data["settings"]}
    assert found["APO clip_range=0.2"] == []
    assert found["APO clip_range=0.1"] == ["clip_range"]
    options = {option["name"]: option for option in data["options"]}
    assert options["adaptive_lambda"]["changed"] and not options["action_bounds"]["changed"]
    assert not options["adaptive_lambda"]["differs"]


def test_the_same_setting_and_seed_from_two_runs_are_two_settings(tmp_path):
    for name in ("old", "new: better"):
        report_run(tmp_path / name, [[1.0]], value_constraint=0.3)
    settings = data_of(tmp_path)["settings"]
    assert sorted(s["name"].split(": APO")[0] for s in settings) == ["new: better", "old"]


def test_commands_of_several_runs_say_whose_they_are(tmp_path):
    commands = {"a": ["longrun", "x y"], "b": ["python", "s.py"], "c": ["python", "s.py"]}
    for name, command in commands.items():
        run = report_run(tmp_path / name, [[1.0]], value_constraint=0.3)
        change_config(run, command=command)
    assert data_of(tmp_path / "a")["command"] == "longrun 'x y'"
    assert data_of(tmp_path)["command"] == "# a\nlongrun 'x y'\n\n# b, c\npython s.py"
    report_sweep(tmp_path / "d")
    assert data_of(tmp_path / "d")["command"] == "longrun sweep"
    assert data_of(tmp_path)["command"].startswith("# d\nlongrun sweep\n\n# a\nlongrun")


# Failed, unfinished and damaged runs.


def test_failed_waiting_and_unfinished_runs_are_listed(tmp_path):
    sweep = report_sweep(tmp_path)
    report_run(sweep / "runs" / "slow", [], iterations=7, finished=False, gae_lambda=0.5)
    found = {(p["run"], p["state"]): p["text"] for p in data_of(sweep)["problems"]}
    assert found["Ant-v5_apo_seed0", "failed"] == "NonFiniteError: the loss is NaN (2 attempts)"
    assert found["later", "waiting"] == "not started"
    assert found["slow", "unfinished"] == "70 of 1,000 steps, no evaluation yet"


def test_a_failed_run_is_listed_once_with_its_error(tmp_path):
    sweep = report_sweep(tmp_path)
    for name in ("Ant-v5_apo_seed0", "slow"):  # the first is in failures.json
        report_run(sweep / "runs" / name, [], env="Ant-v5", finished=False)
    problems = data_of(sweep)["problems"]
    found = {(p["run"], p["state"]): p["text"] for p in problems if p["state"] != "note"}
    assert not any("slow" in p["text"] or "Ant" in p["text"] for p in problems)
    assert found == {
        ("Ant-v5_apo_seed0", "failed"): "NonFiniteError: the loss is NaN (2 attempts)",
        ("later", "waiting"): "not started",
        ("slow", "unfinished"): "0 of 1,000 steps, no evaluation yet",
    }


def test_a_finished_run_without_evaluations_is_noted(tmp_path):
    report_run(tmp_path / "runs" / "short", [], iterations=3)
    report_run(tmp_path / "runs" / "long", [[1.0]], gae_lambda=0.5)
    write_json(tmp_path / "sweep.json", {"runs": {}})
    [problem] = data_of(tmp_path)["problems"]
    assert problem == {"run": "short", "state": "finished", "text": "no evaluation yet"}


def test_a_folder_is_scanned_once(tmp_path, monkeypatch):
    files = []
    read = RunFolder.read_config
    monkeypatch.setattr(RunFolder, "read_config", lambda run: files.append(run.path) or read(run))
    sweep = report_sweep(tmp_path)
    data_of(sweep)
    assert sorted(files) == sorted((sweep / "runs").iterdir())


def test_a_run_that_was_given_more_steps_is_unfinished_again(tmp_path):
    change_config(report_run(tmp_path, [[1.0]]), steps=5000)
    assert [p["state"] for p in data_of(tmp_path)["problems"]] == ["unfinished"]


def test_a_damaged_run_hides_no_other_and_is_noted(tmp_path):
    sweep = report_sweep(tmp_path)
    (sweep / "runs" / "broken").mkdir()
    (sweep / "runs" / "broken" / "config.json").write_text("{")
    data = data_of(sweep)
    assert len(data["settings"]) == 5
    assert any("broken" in p["text"] for p in data["problems"] if p["state"] == "note")


def test_runs_without_evaluations_or_episodes_make_a_page(tmp_path):
    data = data_of(report_run(tmp_path / "started", [], iterations=3, finished=False))
    assert data["result"] == "No policy was evaluated yet."
    assert [m["key"] for m in data["metrics"]] == ["gain", "kl"]
    data = data_of(report_run(tmp_path / "endless", [[1.0]], ends=False))
    assert [m["key"] for m in data["metrics"]] == ["average_reward"]
    json.dumps(data, allow_nan=False)


def test_non_finite_values_are_gaps(tmp_path):
    folder = RunFolder(report_run(tmp_path, [[1.0], [2.0]]))
    for step, gains in ((10, ("inf", 1)), (20, ("nan", 1)), (30, (2, 4))):
        folder.add_metrics(
            {"replica": k, "seed": k, "step": step, "gain": gain} for k, gain in enumerate(gains)
        )
    [setting] = data_of(tmp_path)["settings"]
    curve = setting["training"]["curves"]["gain"]
    assert (curve["seeds"], curve["mean"]) == ([[None, None, 2], [1, 1, 4]], [None, None, 3])


def test_a_seed_far_behind_does_not_count(tmp_path):
    for seed, rewards in enumerate(([1, 2, 3], [1, 2, 5], [9])):
        report_run(tmp_path / "runs" / str(seed), [rewards], first_seed=seed)
    write_json(tmp_path / "sweep.json", {"runs": {}})
    data = data_of(tmp_path)
    [setting] = data["settings"]
    assert (setting["seeds"], setting["final"]["average_reward"]["mean"]) == ([0, 1], 4)
    assert any("left out is seed 2" in p["text"] for p in data["problems"])


def test_a_sweep_of_failures_alone_makes_a_page(tmp_path):
    write_json(tmp_path / "sweep.json", {"runs": {}})
    write_json(tmp_path / "failures.json", [{"run": "a", "error": "no", "attempts": 1}])
    write_report(tmp_path, tmp_path / "page.html", frames=False)
    assert data_of(tmp_path)["problems"] == [{"run": "a", "state": "failed", "text": "no"}]


def test_wrong_input_is_refused_in_one_line(tmp_path):
    for arguments in ([str(tmp_path)], [str(tmp_path / "nowhere")]):
        with pytest.raises(ValueError, match="is not a run folder and not a sweep folder") as error:
            report_command(arguments)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"--out page\.pdf must end in \.html"):
        report_command([str(tmp_path), "--out", "page.pdf"])


# The file.


def test_the_command_writes_one_file_that_refers_to_no_other(tmp_path, capsys):
    out = tmp_path / "page.html"
    assert (
        report_command([str(report_sweep(tmp_path / "s")), "--out", str(out), "--no-frames"]) == 0
    )
    assert f"wrote {out}" in capsys.readouterr().out
    text = out.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert re.findall(r"https?://[^\s\"']+", text) == ["http://www.w3.org/2000/svg"]  # a name only


def test_text_cannot_end_the_data_or_open_an_element(tmp_path):
    assert json.loads(as_json({"a": NASTY})) == {"a": NASTY}
    assert "<" not in as_json({"a": NASTY + "<!--"})
    run = report_run(tmp_path / NASTY.replace("/", ""), [[1.0]], env=NASTY)
    write_report(run, tmp_path / "page.html", frames=False)
    text = (tmp_path / "page.html").read_text()
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img" not in text


@pytest.mark.slow
def test_a_hundred_runs_make_a_page_of_less_than_three_megabytes(tmp_path):
    for run in range(100):
        rewards = [run / 7 + i / 13 for i in range(40)]
        fake_run(
            tmp_path / "runs" / f"r{run}",
            dict(zip(range(1000, 41_000, 1000), rewards, strict=True)),
            seeds=[run % 5],
            options=[{"value_constraint": (run // 5) / 100}],
            metrics={name: [(k + run) / 7.1 for k in range(1, 301)] for name in TRAINING},
        )
    write_json(tmp_path / "sweep.json", {"runs": {}})
    write_report(tmp_path, tmp_path / "page.html", frames=False)
    assert 500_000 < (tmp_path / "page.html").stat().st_size < 1_600_000  # and 1.4 MB of pictures


# Pictures.


@pytest.fixture(scope="module")
def swimmer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a policy, if not a good one."""
    run = report_run(tmp_path_factory.mktemp("run"), [[1.0, 2.0]], hidden_sizes=(8,))
    APO("Swimmer-v5", hidden_sizes=(8,), num_workers=0).save(run / "checkpoint")
    return run


def test_the_first_seed_of_the_best_setting_is_filmed(tmp_path):
    first, other = page.best_policies(read_folder(report_sweep(tmp_path)))
    assert (first.env, other.env) == ("Hopper-v5", "Swimmer-v5")
    assert first.label.startswith("APO")  # 9 against 8
    assert other.label.endswith("value_constraint=0.1")
    assert (other.replicas[0].seed, other.replicas[0].index) == (0, 0)


@pytest.mark.slow
def test_a_film_is_an_animation_with_stills(swimmer):
    [policy] = page.best_policies(read_folder(swimmer))
    film = page.film(policy.replicas[0])
    if "note" in film:
        assert "LONGRUN_CI" not in os.environ, film["note"]
        pytest.skip(film["note"])
    assert len(film["animation"]) < 600_000
    kind, _, content = film["animation"].partition(",")
    assert kind == "data:image/webp;base64"
    assert b"ANIM" in base64.b64decode(content)[:64]
    assert len(film["stills"]) == 6
    assert all(re.fullmatch(r"\d\.\d s: .* per step", s["caption"]) for s in film["stills"])


@pytest.mark.slow
def test_without_opengl_a_line_says_so(swimmer, tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "glfw")  # which needs a display
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    write_report(swimmer, tmp_path / "page.html")
    [film] = embedded(tmp_path / "page.html")["frames"]
    assert film["note"].startswith("OpenGL cannot draw here")
    assert "\n" not in film["note"]


class Drawn(Drift):
    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.metadata = {"render_modes": ["rgb_array"]}
        self.render_mode = render_mode


@pytest.mark.parametrize(
    "make", [Drawn, lambda: Drawn("rgb_array"), lambda render_mode=None: Drawn(render_mode)]
)
def test_environments_that_a_function_makes_are_rendered(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "own_envs", SimpleNamespace(make=make))
    assert _open("own_envs:make").render_mode == "rgb_array"


def test_a_function_without_a_render_mode_is_refused_in_one_line(monkeypatch):
    def make():
        return Drawn()

    monkeypatch.setitem(sys.modules, "own_envs", SimpleNamespace(make=make))
    with pytest.raises(InputError, match=r"argument 'render_mode'; .* render_mode='rgb_array'$"):
        _open("own_envs:make")
    monkeypatch.setitem(
        sys.modules, "own_envs", SimpleNamespace(make=lambda: SyncVectorEnv([Drawn]))
    )
    with pytest.raises(InputError, match="'own_envs:make' is a VectorEnv; only single env"):
        _open("own_envs:make")


def test_environments_in_jax_have_no_pictures(tmp_path):
    run = report_run(tmp_path, [[1.0]], env="jax:criss-cross?regime=BM")
    assert page.best_policies(read_folder(run)) == []
    write_report(run, tmp_path / "page.html")
    assert embedded(tmp_path / "page.html")["frames"] == [
        {
            "env": "jax:criss-cross?regime=BM",
            "note": "environments in JAX cannot be rendered",
        }
    ]


def test_a_path_that_is_not_utf_8_can_be_reported(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    write_report(report_run(folder, [[1.0]]), folder / "page.html", frames=False)
    assert "caf" in (folder / "page.html").read_text()
