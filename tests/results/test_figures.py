"""Figures of results: what is on them, and `longrun plot`."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from fake_runs import fake_run, fake_setting, fake_sweep, require_refusal, rising
from longrun import read_metrics, read_results
from longrun.base.picture_files import picture
from longrun.cli.plot import plot_command
from longrun.lab.results.plots import (
    Panel,
    draw_panels,
    learning_curves,
)
from longrun.lab.results.statistics import (
    MOST_POINTS,
    iqm_interval,
    mean_interval,
    smoothed,
    thinned,
)
from svg_files import FIRST_COLOURS, THICK, THIN, curves_of, markers_of, words_in


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    runs = {
        f"{algorithm}-{env}-{seed}": (
            rising(height + seed),
            {"algorithm": algorithm, "env": env, "seeds": [seed]},
        )
        for algorithm, height in (("apo", 3), ("ppo", 2))
        for env in ("Left-v0", "Right-v0")
        for seed in range(2)
    }
    return fake_sweep(tmp_path / "sweep", runs)


def plot(*arguments: object) -> None:
    assert plot_command([str(argument) for argument in arguments]) == 0


# The command.


@pytest.mark.usefixtures("laid_out")
def test_a_sweep_is_a_grid_of_metrics_and_environments_with_one_legend(sweep, tmp_path, capsys):
    out = tmp_path / "curves.svg"
    plot(sweep, "--out", out)
    words = words_in(out)
    for text in ("Left-v0", "Right-v0", "average reward", "episode return"):
        assert words.count(text) == 1
    for label in ("APO", "PPO discount=0.99"):
        assert words.count(label) == 1
    assert words.count("environment steps") == 2, "below the lowest row only"
    assert "500" in words or "0.5k" in words
    assert "2 environments: interquartile mean over seeds" in capsys.readouterr().out


@pytest.mark.usefixtures("laid_out")
def test_one_metric_of_many_environments_takes_several_rows(tmp_path):
    for env in "ABCDE":
        fake_run(tmp_path / "runs" / env, rising(1), rising(2), env=f"{env}-v0")
    out = tmp_path / "curves.svg"
    plot(tmp_path / "runs", "--metric", "average_reward", "--out", out)
    words = words_in(out)
    assert all(words.count(f"{env}-v0") == 1 for env in "ABCDE")
    assert words.count("average reward") == 2, "at the left of each row"
    assert words.count("environment steps") == 3, "below the lowest panel of each column"
    assert len(curves_of(out, FIRST_COLOURS[0])) == 5


@pytest.mark.parametrize(
    "ending, begins",
    [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89PNG")],
)
def test_the_ending_chooses_the_format(ending, begins, tmp_path):
    run = fake_run(tmp_path / "run", rising(1), rising(2))
    plot(run, "--out", tmp_path / "deep" / f"curves.{ending}")
    assert (tmp_path / "deep" / f"curves.{ending}").read_bytes().startswith(begins)


def test_a_picture_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "new" / "picture.png"
    with picture(out, size=(2, 2)):
        pass
    before = out.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"picture\.png"), picture(out, size=(3, 3)):
        pass
    assert out.read_bytes() == before
    assert list(out.parent.iterdir()) == [out]


def test_several_pictures_at_once(tmp_path, capsys):
    run = fake_run(tmp_path / "run", rising(1))
    outs = [tmp_path / "a.png", tmp_path / "b.svg"]
    plot(run, "--out", outs[0], "--out", outs[1])
    assert outs[0].read_bytes().startswith(b"\x89PNG")
    assert "APO" in words_in(outs[1])
    assert capsys.readouterr().out.count("wrote ") == 2


def test_a_column_of_training_beside_an_evaluation(sweep, tmp_path):
    out = tmp_path / "curves.svg"
    plot(sweep, "--metric", "value_mean", "--metric", "average_reward", "--out", out)
    words = words_in(out)
    assert words.index("average value") < words.index("average reward")


def test_curves_of_training_need_no_evaluations(tmp_path, capsys):
    run = fake_run(tmp_path / "run", rising(1))
    (run / "evaluations.csv").unlink()
    plot(run, "--metric", "gain", "--out", tmp_path / "gain.svg")
    assert "gain (learned average reward)" in words_in(tmp_path / "gain.svg")
    assert "evaluation" not in capsys.readouterr().out


def test_discounted_algorithms_have_no_gain(sweep, tmp_path, capsys):
    out = tmp_path / "gain.svg"
    plot(sweep, "--metric", "gain", "--metric", "value_mean", "--out", out)
    note = "note: gain leaves out PPO discount=0.99: discounted algorithms learn no gain\n"
    assert capsys.readouterr().out.count(note) == 1
    assert len(curves_of(out, FIRST_COLOURS[0])) == 4, "APO, two metrics on two environments"
    assert len(curves_of(out, FIRST_COLOURS[1])) == 2, "PPO"
    values = {s.config.algorithm: s.values["gain"] for s in read_metrics(sweep, ["gain"])}
    assert np.isfinite(values["apo"]).all() and np.isnan(values["ppo"]).all()


def test_the_interquartile_mean_on_request(sweep, tmp_path):
    plot(sweep, "--iqm", "--smooth", "3", "--out", tmp_path / "curves.svg")
    assert "thick: interquartile mean, thin: seeds" in words_in(tmp_path / "curves.svg")
    fake_run(tmp_path / "run", *(rising(k) for k in range(5)))
    plot(tmp_path / "run", "--iqm", "--out", tmp_path / "more.svg")
    words = " ".join(words_in(tmp_path / "more.svg"))
    assert "thick: interquartile mean, band: its nominal 95 % interval (5 seeds or more)" in words


def test_a_metric_without_a_value_has_no_panel(tmp_path):
    run = fake_run(tmp_path / "run", rising(1), ends=False)
    plot(run, "--out", tmp_path / "curves.svg")
    words = words_in(tmp_path / "curves.svg")
    assert "episode return" not in words
    assert not any("thick" in each for each in words), "of one seed there is one line"


def test_a_picture_of_nothing_is_refused(tmp_path):
    run = fake_run(tmp_path / "run", rising(1), ends=False)
    with pytest.raises(ValueError, match="no run has a value of episode_return; choose another"):
        plot_command([str(run), "--metric", "episode_return", "--out", str(tmp_path / "no.png")])
    assert not (tmp_path / "no.png").exists()


def test_a_single_evaluation_has_a_marker_and_a_curve_has_none(tmp_path):
    single, several = tmp_path / "single.svg", tmp_path / "several.svg"
    plot(fake_run(tmp_path / "run", {1000: 1.0}), "--out", single)
    assert markers_of(single, FIRST_COLOURS[0]) == 2, "in either panel"
    plot(fake_run(tmp_path / "other", rising(1)), "--out", several)
    assert markers_of(several, FIRST_COLOURS[0]) == 0


def test_seeds_with_a_single_evaluation_are_small_points(tmp_path):
    run, out = fake_run(tmp_path / "run", {1000: 1.0}, {1000: 2.0}, {1000: 6.0}), tmp_path / "a.svg"
    plot(run, "--metric", "average_reward", "--out", out)
    assert markers_of(out, FIRST_COLOURS[0]) == 1, "the mean"
    assert markers_of(out, FIRST_COLOURS[0], edge="#ffffff") == 3, "the seeds"
    assert "large point: mean, small points: seeds" in words_in(out)


def test_the_thick_curve_is_the_mean_of_the_thin_ones(tmp_path):
    run, out = fake_run(tmp_path / "run", rising(1), rising(3)), tmp_path / "curves.svg"
    plot(run, "--metric", "average_reward", "--out", out)
    thick, (first, second) = (curves_of(out, FIRST_COLOURS[0], w) for w in (THICK, THIN))
    assert len(thick[0]) == 10
    middle = [(a[1] + b[1]) / 2 for a, b in zip(first, second, strict=True)]
    assert [y for _, y in thick[0]] == pytest.approx(middle, abs=1e-3)
    assert first[-1][1] - second[-1][1] > 100, "seeds end at 1 and 3, higher is up"


REFUSED = {
    "no run": (["nowhere"], "'nowhere' is not a run folder"),
    "metric": (
        ["RUN", "--metric", "value_maen"],
        "unknown metric 'value_maen'; did you mean value_m",
    ),
    "nothing like a metric": (["RUN", "--metric", "zzz"], "valid: average_reward"),
    "picture": (["RUN", "--out", "curves.xyz"], "curves.xyz: '.xyz' is not a picture format"),
    "jpg": (
        ["RUN", "--out", "c.jpg"],
        "c.jpg: '.jpg' is not a picture format; use png, pdf or svg",
    ),
    "no ending": (["RUN", "--out", "curves"], "use png, pdf or svg"),
    "smooth": (["RUN", "--smooth", "0"], "smooth=0 must be 1 or more"),
    "option": (["RUN", "--iqr"], "--iqm"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_input_is_refused_in_one_line(what, tmp_path, monkeypatch):
    require_refusal(plot_command, *REFUSED[what], tmp_path, monkeypatch)


# Numbers of the curves.


def test_smoothing_never_looks_ahead():
    values = np.array([[1.0], [3.0], [5.0], [100.0]])
    assert smoothed(values, 2).T.tolist() == [[1.0, 2.0, 4.0, 52.5]]
    assert smoothed(values, 1) is values


def test_long_curves_are_thinned_to_means_of_neighbours():
    steps, values = np.arange(1, 502), np.arange(1.0, 502)[:, None]
    thin_steps, thin = thinned(steps, values)
    assert len(thin_steps) == len(thin) == 167 <= MOST_POINTS
    assert thin_steps[:2].tolist() == [3, 6]
    assert thin[:2].tolist() == [[2.0], [5.0]]
    assert (thin_steps[-1], thin[-1, 0]) == (501, 500.0)
    assert thinned(steps[:200], values[:200])[0].tolist() == list(range(1, 201))


def test_a_band_is_students_interval_or_the_bootstraps():
    values = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    mean, low, high = (float(x[0]) for x in mean_interval(values))
    assert (mean, high - mean) == (3.0, pytest.approx(2.776445 * np.sqrt(2.5 / 5)))
    assert low == pytest.approx(6 - high)
    _, low, high = (float(x[0]) for x in iqm_interval(values))
    assert 1 <= low < high <= 5


@pytest.mark.parametrize("seeds", [1, 2, 3, 4])
@pytest.mark.parametrize("iqm", [False, True])
def test_few_seeds_have_no_band(seeds, iqm, tmp_path):
    """Student's interval of two seeds is 25 times as wide as their distance."""
    curves = [[float(k) for k in range(seeds)], [2.0 * k for k in range(seeds)]]
    middle, low, high = (iqm_interval if iqm else mean_interval)(np.array(curves))
    assert np.isfinite(middle).all() and np.isnan(low).all() and np.isnan(high).all()
    setting = fake_setting("APO", [1, 2], {"average_reward": curves})
    learning_curves([setting], [tmp_path / "few.svg"], iqm=iqm)
    assert not any("95 %" in text for text in words_in(tmp_path / "few.svg"))


@pytest.mark.usefixtures("laid_out")
def test_panels_of_any_settings_share_colours_and_legend(sweep, tmp_path):
    settings = read_results(sweep)
    grid = [
        [
            Panel(settings[:1], "average_reward", "(a)", "reward"),
            Panel(settings[2:3], "episode_return", "(b)"),
        ]
    ]
    out = tmp_path / "grid.svg"
    draw_panels(grid, [out], title="Figure 2")
    words = words_in(out)
    for text in ("Figure 2", "(a)", "(b)", "APO", "PPO discount=0.99"):
        assert words.count(text) == 1


@pytest.mark.usefixtures("laid_out")
def test_more_settings_than_colours_and_long_names_can_be_drawn(tmp_path):
    many = [
        fake_setting(
            f"APO {' '.join(f'{x}_option={n}' for x in 'abcdef')}",
            [1, 2],
            {"average_reward": [[n], [n]]},
        )
        for n in range(14)
    ]
    learning_curves(many, [tmp_path / "many.svg"])
    words = " ".join(words_in(tmp_path / "many.svg"))
    assert all(f"f_option={n}" in words for n in range(14))
