"""Reading runs and sweeps: which replicas belong together, what is left out with a warning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fake_runs import fake_run, fake_sweep, rising
from longrun import FolderError, read_results
from longrun.base.files import read_json, write_json
from longrun.lab.results.labels import names_of, shortened
from longrun.lab.results.read import METRICS, measured, read_metrics
from longrun.lab.results.settings import scan
from longrun.learning.options.config_options import make_config


def labels(*paths: Path) -> list[str]:
    return [setting.label for setting in read_results(paths)]


# Which replicas belong together.


def test_a_run_has_a_setting_for_each_point_of_its_grid(tmp_path):
    nus = [{"value_constraint": nu} for nu in (0.0, 0.0, 0.1, 0.1)]
    curves = [{100: 1.0, 200: 2.0}] * 4
    run = fake_run(tmp_path / "run", *curves, seeds=(3, 4, 3, 4), options=nus)
    first, second = read_results(run)
    assert (first.label, second.label) == ("APO value_constraint=0.0", "APO value_constraint=0.1")
    assert first.seeds == (3, 4)
    assert first.steps.tolist() == [100, 200]
    assert first.values["average_reward"].tolist() == [[1, 1], [2, 2]]


def test_replicas_of_a_setting_are_merged_across_the_runs_of_a_sweep(tmp_path):
    sweep = fake_sweep(
        tmp_path / "sweep",
        {
            "b-10": ({100: 3.0}, {"seeds": [10]}),
            "b-2": ({100: 2.0}, {"seeds": [2]}),
            "c": ({100: 9.0}, {"algorithm": "ppo"}),
            "d": ({100: 7.0}, {"env": "Other-v0"}),
        },
    )
    apo, ppo, other = read_results(sweep)
    assert (apo.label, apo.seeds) == ("APO", (2, 10))
    assert apo.values["average_reward"].tolist() == [[2.0, 3.0]]
    assert (ppo.label, ppo.env) == ("PPO discount=0.99", "Drift-v0")
    assert (other.label, other.env) == ("APO", "Other-v0")


def test_labels_name_what_differs_within_what_is_shown(tmp_path):
    usual = fake_run(tmp_path / "usual", {100: 1.0})
    other = fake_run(tmp_path / "other", {100: 1.0}, options=[{"epochs": 7}])
    assert labels(usual) == ["APO"]
    assert labels(usual, other) == ["APO epochs=5", "APO epochs=7"]
    preset = fake_run(tmp_path / "preset", {100: 1.0}, preset="queueing")
    assert labels(usual, preset) == ["APO", "APO (queueing)"]


def test_labels_of_an_ablation_name_what_each_setting_changes(tmp_path):
    """And no others, which would be those of all other settings; seeds count once."""
    changes = [{"value_constraint": 0.0}, {"epochs": 1}, {}]
    replicas = [change for change in changes for _ in range(2)]
    run = fake_run(tmp_path / "run", *[{100: 1.0}] * 6, seeds=(0, 1) * 3, options=replicas)
    assert labels(run) == ["APO", "APO epochs=1", "APO value_constraint=0.0"]
    tied = fake_run(tmp_path / "tied", {100: 1.0}, options=[{"epochs": 1, "clip_range": 0.5}])
    assert labels(run, tied) == [
        "APO epochs=1",
        "APO epochs=5",  # half of them change it
        "APO epochs=5 value_constraint=0.0",
        "APO epochs=1 clip_range=0.5",
    ]


def test_runs_of_several_presets_have_labels_of_their_own(tmp_path):
    new, paper = (fake_run(tmp_path / p, {100: 1.0}, preset=p) for p in ("tuned", "paper"))
    assert labels(new, paper) == ["APO", "APO (paper)"]
    alike = make_config("apo", "tuned")  # the same options by another way
    same = fake_run(tmp_path / "same", {100: 1.0}, preset="paper", options=[vars(alike)])
    label, other = labels(new, same)
    assert label == "APO" and other.startswith("APO (paper) ") and "scale_rewards=True" in other


def test_a_folder_of_runs_and_sweeps_is_read_as_all_of_them(tmp_path):
    fake_run(tmp_path / "all" / "one", {100: 1.0})
    fake_sweep(tmp_path / "all" / "two", {"x": ({100: 1.0}, {"algorithm": "ppo"})})
    (tmp_path / "all" / "notes").mkdir()
    assert labels(tmp_path / "all") == ["APO", "PPO discount=0.99"]


def test_the_same_run_given_twice_counts_once(tmp_path):
    sweep = fake_sweep(tmp_path / "sweep", {"x": (rising(1), {}), "y": (rising(1), {"seeds": [1]})})
    assert [s.seeds for s in read_results([sweep, sweep, sweep / "runs" / "x"])] == [(0, 1)]


def test_the_same_seed_from_two_places_is_never_pooled(tmp_path):
    for place, reward in (("old", 1.0), ("new", 2.0)):
        fake_run(tmp_path / place / "swimmer", {100: reward}, {100: reward})
    old, new = read_results([tmp_path / "old" / "swimmer", tmp_path / "new" / "swimmer"])
    assert (old.label, new.label) == ("old/swimmer: APO", "new/swimmer: APO")
    assert old.seeds == new.seeds == (0, 1)
    assert new.values["average_reward"].tolist() == [[2.0, 2.0]]


def test_two_sweeps_with_equal_settings_are_kept_apart_as_a_whole(tmp_path):
    for name in ("before", "after"):
        fake_sweep(
            tmp_path / name,
            {"0": ({100: 1.0}, {}), "1": ({100: 1.0}, {"seeds": [1]})},
        )
    fake_run(tmp_path / "ppo", {100: 1.0}, algorithm="ppo")
    found = labels(tmp_path / "before", tmp_path / "after", tmp_path / "ppo")
    assert found == ["before: APO", "after: APO", "PPO discount=0.99"]


def test_two_runs_of_a_sweep_with_the_same_seed_are_kept_apart_too(tmp_path):
    sweep = fake_sweep(tmp_path / "sweep", {"x": ({100: 1.0}, {}), "y": ({100: 2.0}, {})})
    assert labels(sweep) == ["x: APO", "y: APO"]


def test_a_setting_names_the_files_and_options_of_its_seeds(tmp_path):
    fake_run(tmp_path / "first", rising(1), rising(1), seeds=(5, 3), options=[{"epochs": 4}])
    fake_run(tmp_path / "second", rising(1), seeds=(4,), options=[{"epochs": 4}])
    (setting,) = read_results(tmp_path)
    places = [(replica.run.name, replica.index, replica.seed) for replica in setting.replicas]
    assert places == [("first", 1, 3), ("second", 0, 4), ("first", 0, 5)]
    assert (setting.config.algorithm, setting.preset) == ("apo", "tuned")
    assert setting.config.epochs == 4


def test_evaluations_and_training_of_a_setting_have_the_same_label(tmp_path):
    sweep = fake_sweep(tmp_path / "sweep", {"x": ({100: 1.0}, {}), "y": ({100: 2.0}, {})})
    (sweep / "runs" / "y" / "evaluations.csv").unlink()
    with pytest.warns(UserWarning, match="y': left out because it has no evaluations yet"):
        (evaluated,) = read_results(sweep)
    trained = read_metrics(sweep, ["gain"])
    assert evaluated.label == trained[0].label == "x: APO"


@pytest.mark.parametrize("kind", [str, Path, lambda path: [str(path)], lambda path: (path,)])
def test_paths_may_be_strings_or_paths_one_or_several(kind, tmp_path):
    run = fake_run(tmp_path / "run", rising(1))
    assert [setting.label for setting in read_results(kind(run))] == ["APO"]


# Curves of different lengths.


def test_an_unfinished_seed_does_not_shorten_the_other_curves_and_is_named(tmp_path):
    run = fake_run(tmp_path / "run", rising(1), rising(2), rising(3, steps=300, points=3))
    with pytest.warns(
        UserWarning, match=r"APO: others are at 1,000 steps; left out is seed 2 at 3"
    ):
        (setting,) = read_results(run)
    assert setting.seeds == (0, 1)
    assert setting.steps[-1] == 1000


def test_a_seed_that_is_almost_finished_is_kept_without_a_warning(tmp_path):
    almost = {step: r for step, r in rising(3).items() if step < 1000}
    for name, curves in {"one": [rising(1), almost], "two": [rising(1), almost, almost]}.items():
        (setting,) = read_results(fake_run(tmp_path / name, *curves))
        assert len(setting.seeds) == len(curves)
        assert setting.steps[-1] == 900


def test_a_curve_ends_where_half_of_the_seeds_do(tmp_path):
    half = {step: r for step, r in rising(1).items() if step <= 500}
    run = fake_run(tmp_path / "run", rising(1), half, half)
    with pytest.warns(UserWarning, match=r"up to 500 steps, as far as half .* seed 0 at 1,000"):
        (setting,) = read_results(run)
    assert setting.seeds == (0, 1, 2)
    assert setting.steps[-1] == 500


def test_only_steps_that_all_seeds_have_are_kept(tmp_path):
    run = fake_run(tmp_path / "run", {100: 1.0, 200: 2.0, 300: 3.0}, {100: 5.0, 300: 6.0})
    (setting,) = read_results(run)
    assert setting.steps.tolist() == [100, 300]
    assert setting.values["average_reward"].tolist() == [[1, 5], [3, 6]]


def test_seeds_without_a_common_step_give_a_warning(tmp_path):
    run = fake_run(tmp_path / "run", {100: 1.0}, {101: 5.0})
    with pytest.warns(UserWarning, match="left out because .* never evaluated at the same step"):
        assert read_results(run) == []


def test_of_two_rows_for_a_step_the_later_one_counts(tmp_path):
    run = fake_run(tmp_path / "run", {100: 1.0})
    file = run / "evaluations.csv"
    file.write_text(file.read_text() + "0,0,100,7,6,8,70,10,1,1\n")
    assert read_results(run)[0].values["average_reward"].tolist() == [[7.0]]


# Columns.


def test_the_papers_second_metric_is_derived(tmp_path):
    run = fake_run(tmp_path / "run", {100: 3.0})
    values = read_results(run)[0].values
    assert values["episode_return"].tolist() == [[30.0]]
    assert values["episode_average_reward"].tolist() == [[3.0]]
    endless = fake_run(tmp_path / "endless", {100: 3.0}, ends=False)
    assert np.isnan(read_results(endless)[0].values["episode_average_reward"]).all()


def test_curves_of_training_are_read_for_the_same_settings(tmp_path):
    sweep = fake_sweep(tmp_path / "sweep", {"x": (rising(1), {}), "y": (rising(2), {"seeds": [1]})})
    (setting,) = read_metrics([sweep], ["value_mean"])
    assert (setting.label, setting.seeds) == ("APO", (0, 1))
    assert setting.values["value_mean"][-1].tolist() == [-1.0, -2.0]
    assert set(setting.values) == {"value_mean"}
    assert measured(scan(sweep), METRICS) == ["gain", "value_mean"]


def test_a_column_that_only_some_algorithms_have_is_nan_for_the_others(tmp_path):
    apo = fake_run(tmp_path / "apo", {100: 1.0})
    ppo = fake_run(tmp_path / "ppo", {100: 1.0}, algorithm="ppo")
    (ppo / "metrics.csv").write_text("replica,seed,step,value_mean\n0,0,100,1.5\n")
    first, second = read_metrics([apo, ppo], ["gain"])
    assert first.values["gain"].tolist() == [[1.0]]
    assert np.isnan(second.values["gain"]).all()


def test_an_unknown_metric_lists_the_near_ones(tmp_path):
    run = fake_run(tmp_path / "run", {100: 1.0})
    with pytest.raises(ValueError, match="unknown metric 'value_maen'; did you mean value_mean"):
        read_metrics([run], ["value_maen"])


# Damage.

GOOD = "0,0,{step},1,0,2,10,10,1,1"
DAMAGED = {
    "too few columns": "0,0,200,1,0",
    "too many columns": "0,0,200,1,0,2,10,10,1,1,5",
    "not a number": "0,0,200,one,0,2,10,10,1,1",
    "no number at all": "0,0,200,,0,2,10,10,1,1",
    "two lines in one": "0,0,200,1,0,2,1" + GOOD.format(step=300),
    "an unknown replica": "7,0,200,1,0,2,10,10,1,1",
    "half a replica": "0.5,0,200,1,0,2,10,10,1,1",
    "no step": "0,0,nan,1,0,2,10,10,1,1",
    "a negative step": "0,0,-200,1,0,2,10,10,1,1",
    "an endless step": "0,0,inf,1,0,2,10,10,1,1",
    "nothing": "",
    "zeros of a crashed disk": "\0" * 40,
}


def with_lines(run: Path, *lines: str, end: str = "\n") -> Path:
    file = run / "evaluations.csv"
    header = file.read_text().split("\n")[0]
    file.write_text("\n".join([header, *lines]) + end)
    return run


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_row_is_left_out_and_named(what, tmp_path):
    first, last = GOOD.format(step=100), GOOD.format(step=300)
    run = with_lines(fake_run(tmp_path / "run", {100: 1.0}), first, DAMAGED[what], last)
    with pytest.warns(UserWarning, match=r"evaluations.csv' line 3 is damaged and left out$"):
        (setting,) = read_results(run)
    assert setting.steps.tolist() == [100, 300]


def test_many_damaged_rows_are_one_warning(tmp_path):
    rows = [GOOD.format(step=100), *["x"] * 7, GOOD.format(step=200)]
    run = with_lines(fake_run(tmp_path / "run", {100: 1.0}), *rows)
    with pytest.warns(UserWarning, match="lines 3, 4, 5, 6 and 3 more are damaged") as caught:
        read_results(run)
    assert len(caught) == 1


def test_bytes_that_are_not_text_are_damage(tmp_path):
    run = with_lines(fake_run(tmp_path / "run", {100: 1.0}), GOOD.format(step=100), "bytes")
    file = run / "evaluations.csv"
    file.write_bytes(file.read_bytes().replace(b"bytes", b"\xff\xfe,\x80"))
    with pytest.warns(UserWarning, match="line 3"):
        assert read_results(run)[0].steps.tolist() == [100]


@pytest.mark.parametrize("cut", ["0,0,200,1,0", "0,0,2", "0"])
def test_a_cut_last_line_needs_no_warning(cut, tmp_path):
    run = fake_run(tmp_path / "run", {100: 1.0})
    assert read_results(with_lines(run, GOOD.format(step=100), cut, end=""))[0].steps.tolist() == [
        100
    ]


def test_a_last_line_that_may_be_cut_within_its_last_number_is_left_out(tmp_path):
    run = fake_run(tmp_path / "run", {100: 1.0})
    run = with_lines(run, GOOD.format(step=100), "0,0,200,1,0,2,10,10,1,1", end="")
    with pytest.warns(UserWarning, match="line 3 has no line end and may be cut; it is left out"):
        assert read_results(run)[0].steps.tolist() == [100]


def test_a_damaged_header_gives_a_warning(tmp_path):
    run = fake_run(tmp_path / "run", {100: 1.0})
    (run / "evaluations.csv").write_text("repl\n1\n")
    with (
        pytest.warns(UserWarning, match="line 1 is damaged"),
        pytest.raises(ValueError, match="has no evaluations yet"),
    ):
        read_results(run)


# What is missing.


def test_other_folders_are_refused_in_one_line(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "sweep.json").write_text("{}")
    for name, words in (
        ("empty", "is not a run folder and not a sweep folder"),
        ("nowhere", "is not a run folder"),
        ("sweep", "or has no runs yet"),
    ):
        with pytest.raises(ValueError, match=words) as refusal:
            read_results([tmp_path / name])
        assert str(tmp_path / name) in str(refusal.value)


def test_a_run_without_evaluations_is_left_out_of_a_sweep(tmp_path):
    sweep = fake_sweep(tmp_path / "sweep", {"x": (rising(1), {}), "y": ({}, {"seeds": [1]})})
    with pytest.warns(
        UserWarning, match=r"sweep/runs/y': left out because it has no evaluations yet; train"
    ):
        (setting,) = read_results(sweep)
    assert setting.seeds == (0,)


def test_runs_without_evaluations_are_left_out_with_one_warning_however_they_are_given(tmp_path):
    for seed, (name, curve) in enumerate({"x": rising(1), "y": {}, "z": {}}.items()):
        fake_run(tmp_path / name, curve, seeds=(seed,))
    runs = [tmp_path / name for name in "xyz"]
    for given, words in (
        (runs[:2], f"'{runs[1]}': left out because it has no evaluations yet; train longer"),
        (runs, f"'{runs[1]}', '{runs[2]}': left out because they have no evaluations yet; train"),
        (tmp_path, f"'{runs[1]}', '{runs[2]}': left out because they have no evaluations yet; "),
    ):
        with pytest.warns(UserWarning) as caught:
            (setting,) = read_results(given)
        assert setting.seeds == (0,)
        (message,) = [str(warning.message) for warning in caught]
        assert message.startswith(words)
    with pytest.raises(ValueError, match=r"y' has no evaluations yet; train longer"):
        read_results(runs[1:])


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 4}', "\xff"])
def test_a_damaged_run_is_refused_by_name_and_left_out_of_a_sweep(content, tmp_path):
    sweep = fake_sweep(tmp_path / "sweep", {"x": (rising(1), {}), "y": (rising(1), {"seeds": [1]})})
    (sweep / "runs" / "y" / "config.json").write_text(content, encoding="latin1")
    with pytest.raises(ValueError, match=r"config.json' is damaged"):
        read_results([sweep / "runs" / "y"])
    with pytest.warns(UserWarning, match=r"config.json' is damaged.*the run is left out"):
        assert read_results(sweep)[0].seeds == (0,)


@pytest.mark.parametrize("what", ["algorithm", "preset"])
def test_a_run_of_an_unknown_name_is_refused_by_its_file_and_left_out_of_a_sweep(what, tmp_path):
    """As of a later version."""
    sweep = fake_sweep(tmp_path / "sweep", {"x": (rising(1), {}), "y": (rising(1), {"seeds": [1]})})
    file = sweep / "runs" / "y" / "config.json"
    write_json(file, read_json(file) | {what: "later"})
    message = rf"y/config.json' is damaged: unknown {what} 'later'; "
    with pytest.raises(FolderError, match=message):
        read_results([sweep / "runs" / "y"])
    with pytest.warns(UserWarning, match=f"{message}.*; the run is left out"):
        assert read_results(sweep)[0].seeds == (0,)


def test_a_sweep_without_any_evaluation_is_refused(tmp_path):
    sweep = fake_sweep(tmp_path / "sweep", {"x": ({}, {})})
    with pytest.raises(ValueError, match="x' has no evaluations yet"):
        read_results(sweep)


# Names.


def test_labels_are_shortened_by_what_all_share():
    short, shared = shortened(["APO epochs=4 gae_lambda=0.9", "PPO epochs=4 discount=0.9"])
    assert list(short.values()) == ["APO gae_lambda=0.9", "PPO discount=0.9"]
    assert shared == "epochs=4"
    assert shortened(["APO epochs=4"]) == ({"APO epochs=4": "APO epochs=4"}, "")


def test_paths_are_named_by_the_shortest_ends_that_differ():
    assert list(names_of([Path("/a/b/c"), Path("/a/x/c")]).values()) == ["b/c", "x/c"]
    assert list(names_of([Path("/a/b"), Path("/a/c")]).values()) == ["b", "c"]


# Evaluations that have not settled.


def test_evaluations_say_whether_they_have_settled(tmp_path):
    run = fake_run(tmp_path / "run", {100: 1.0, 200: 2.0}, unsettled=[100])
    (setting,) = read_results(run)
    assert setting.values["settled"].tolist() == [[0], [1]]
