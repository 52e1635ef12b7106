"""Pictures of results: what is on them, and `longrun plot`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fake_runs import fake_run, fake_sweep, rising
from longrun.cli.plot import plot_command
from longrun.results.plots import (
    MOST_POINTS,
    Panel,
    band,
    draw_panels,
    learning_curves,
    smoothed,
    thinned,
)
from longrun.results.read import Setting, read_results


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


def words_in(svg: Path) -> str:
    """Matplotlib draws text as paths, and leaves each of them in a comment."""
    lines = [line.strip() for line in svg.read_text().splitlines()]
    return "\n".join(line[5:-4] for line in lines if line.startswith("<!-- "))


# The command.


def test_a_sweep_is_a_grid_of_metrics_and_environments_with_one_legend(sweep, tmp_path, capsys):
    out = tmp_path / "curves.svg"
    plot(sweep, "--out", out)
    words = words_in(out).split("\n")
    for text in ("Left-v0", "Right-v0", "average reward per step", "episode return"):
        assert words.count(text) == 1
    for label in ("APO", "PPO discount=0.99"):
        assert words.count(label) == 1
    assert words.count("environment steps") == 2, "below the lowest row only"
    assert "500" in words or "0.5k" in words
    assert "2 environments: last evaluation" in capsys.readouterr().out


@pytest.mark.parametrize(
    "ending, begins",
    [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89PNG")],
)
def test_the_ending_chooses_the_format(ending, begins, tmp_path):
    run = fake_run(tmp_path / "run", rising(1), rising(2))
    plot(run, "--out", tmp_path / "deep" / f"curves.{ending}")
    assert (tmp_path / "deep" / f"curves.{ending}").read_bytes().startswith(begins)


def test_several_pictures_at_once(tmp_path, capsys):
    run = fake_run(tmp_path / "run", rising(1))
    outs = [tmp_path / "a.png", tmp_path / "b.svg"]
    plot(run, "--out", outs[0], "--out", outs[1])
    assert all(out.exists() for out in outs)
    assert capsys.readouterr().out.count("wrote ") == 2


def test_a_column_of_training_beside_an_evaluation(sweep, tmp_path):
    out = tmp_path / "curves.svg"
    plot(sweep, "--metric", "value_mean", "--metric", "average_reward", "--out", out)
    words = words_in(out)
    assert words.index("average value") < words.index("average reward per step")


def test_curves_of_training_need_no_evaluations(tmp_path, capsys):
    run = fake_run(tmp_path / "run", rising(1))
    (run / "evaluations.csv").unlink()
    plot(run, "--metric", "gain", "--out", tmp_path / "gain.svg")
    assert "learned gain" in words_in(tmp_path / "gain.svg")
    assert "evaluation" not in capsys.readouterr().out


def test_the_interquartile_mean_on_request(sweep, tmp_path):
    plot(sweep, "--iqm", "--smooth", "3", "--out", tmp_path / "curves.svg")
    assert "interquartile mean" in words_in(tmp_path / "curves.svg")


def test_a_metric_without_a_value_has_no_panel(tmp_path):
    run = fake_run(tmp_path / "run", rising(1), ends=False)
    plot(run, "--out", tmp_path / "curves.svg")
    assert "episode return" not in words_in(tmp_path / "curves.svg")


def test_a_picture_of_nothing_is_refused(tmp_path):
    run = fake_run(tmp_path / "run", rising(1), ends=False)
    with pytest.raises(ValueError, match="no run has a value of episode_return; choose another"):
        plot_command([str(run), "--metric", "episode_return", "--out", str(tmp_path / "no.png")])
    assert not (tmp_path / "no.png").exists()


def test_a_single_evaluation_can_be_seen(tmp_path):
    run = fake_run(tmp_path / "run", {1000: 1.0})
    plot(run, "--out", tmp_path / "curves.svg")
    assert 'id="m' in (tmp_path / "curves.svg").read_text()


REFUSED = {
    "no run": (["nowhere"], "'nowhere' is no run"),
    "metric": (
        ["RUN", "--metric", "value_maen"],
        "unknown metric 'value_maen'; did you mean value_m",
    ),
    "nothing like a metric": (["RUN", "--metric", "zzz"], "valid: average_reward"),
    "picture": (["RUN", "--out", "curves.xyz"], "curves.xyz: '.xyz' is no ending of a picture"),
    "no ending": (["RUN", "--out", "curves"], "take png, pdf or svg"),
    "smooth": (["RUN", "--smooth", "0"], "smooth=0 must be 1 or more"),
    "option": (["RUN", "--iqr"], "--iqm"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_input_is_refused_in_one_line(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = fake_run(tmp_path / "run", rising(1))
    arguments, words = REFUSED[what]
    with pytest.raises(ValueError) as refusal:
        plot_command([str(run) if word == "RUN" else word for word in arguments])
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


# What lies behind.


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
    values = np.array([[1.0, 2.0, 3.0]])
    mean, low, high = (float(x[0]) for x in band(values, iqm=False))
    assert (mean, high - mean) == (2.0, pytest.approx(4.302653 / np.sqrt(3)))
    assert low == pytest.approx(4 - high)
    _, low, high = (float(x[0]) for x in band(values, iqm=True))
    assert 1 <= low < high <= 3


def test_panels_of_any_settings_share_colours_and_legend(sweep, tmp_path):
    settings = read_results([sweep])
    grid = [
        [
            Panel(settings[:1], "average_reward", "(a)", "reward"),
            Panel(settings[2:3], "episode_return", "(b)"),
        ]
    ]
    out = tmp_path / "grid.svg"
    draw_panels(grid, [out], title="Figure 2", names={"APO": "APO, strong"})
    words = words_in(out)
    for text in ("Figure 2", "(a)", "(b)", "APO, strong", "PPO discount=0.99"):
        assert words.count(text) == 1


def test_more_settings_than_colours_and_long_names_can_be_drawn(tmp_path):
    steps, values = np.array([1, 2]), {"average_reward": np.ones((2, 1))}
    many = [
        Setting("E", f"APO {' '.join(f'{x}_option={n}' for x in 'abcdef')}", (0,), steps, values)
        for n in range(14)
    ]
    learning_curves(many, [tmp_path / "many.svg"])
    assert "a_option=13" in words_in(tmp_path / "many.svg")
