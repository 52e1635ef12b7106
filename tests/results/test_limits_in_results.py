"""Costs and their limits in tables, plots and the report: feasible settings come first."""

from __future__ import annotations

import csv
import re

import pytest

from fake_runs import change_config, fake_run, rising
from longrun.base.errors import FolderError
from longrun.base.files import read_json
from longrun.cli.compare import compare_command
from longrun.cli.plot import plot_command
from longrun.lab.report.data import page_data
from longrun.lab.report.page import best_policies
from longrun.lab.report.runs import read_folder
from longrun.lab.results.comparison import compare
from longrun.lab.results.comparison_table import print_final
from longrun.lab.results.read import read_results
from longrun.lab.results.scores import cost_rates, feasible_first
from longrun.learning.runs.evaluation_report import CostRate

LIMITED = {"limits": {"wear": 0.1}}
FREE = {"costs": ["wear"]}


def run_with_costs(path, reward, rates, options, reach=0.01):
    """A run with one replica for each rate of the cost "wear", the same in all evaluations."""
    curve = dict.fromkeys(range(100, 1001, 100), reward)
    costs = [{"wear": CostRate(rate, rate - reach, rate + reach)} for rate in rates]
    return fake_run(path, *[curve] * len(rates), options=[options], costs=costs)


@pytest.fixture
def runs(tmp_path):
    """One that earns more and violates the limit, one that keeps it but for a seed."""
    free = run_with_costs(tmp_path / "all" / "free", 2.0, [0.5, 0.6, 0.09], FREE)
    kept = run_with_costs(tmp_path / "all" / "kept", 1.0, [0.09, 0.105, 0.2], LIMITED)
    return [free, kept]


def test_results_have_the_costs_of_evaluations(runs):
    free, kept = read_results(runs)
    assert free.values["cost_wear"].shape == (10, 3)
    assert kept.values["cost_wear_low"][0] == pytest.approx([0.08, 0.095, 0.19])


def test_a_seed_keeps_its_limit_unless_its_whole_interval_is_above(runs):
    """One evaluation is in the last tenth of training."""
    free, kept = cost_rates(read_results(runs))
    assert (kept.limit, kept.rates) == (0.1, pytest.approx((0.09, 0.105, 0.2)))
    assert kept.lows == pytest.approx((0.09 - 0.01, 0.105 - 0.01, 0.2 - 0.01))
    assert kept.kept == (True, True, False)
    assert free.limit == 0.1, "measured by the limit of the others"
    assert free.kept == (False, False, True)


def test_more_evaluations_make_the_interval_of_a_rate_shorter(tmp_path):
    curve = dict.fromkeys(range(10, 1001, 10), 1.0)
    costs = [{"wear": CostRate(0.105, 0.095, 0.115)}]
    fake_run(tmp_path / "run", curve, options=[LIMITED], costs=costs)
    (rates,) = cost_rates(read_results(tmp_path / "run"))
    assert rates.lows == pytest.approx([0.105 - 0.01 / 10**0.5])
    assert rates.kept == (False,)


def test_feasible_settings_come_first(runs):
    settings = read_results(runs)
    first, second = feasible_first(settings, cost_rates(settings))
    assert [s.values["average_reward"][0, 0] for s in (first, second)] == [1.0, 2.0]
    found = compare(runs, "average_reward")
    assert [row.aggregates["mean"].value for row in found.rows] == [1.0, 2.0]
    assert found.baselines["Drift-v0"] == settings[0].label, "as before: the first that was given"


def test_recorded_costs_do_not_split_a_setting(tmp_path):
    """They change nothing that is learned; as limits they do."""
    curve = {100: 1.0}
    for seed, options in enumerate([{}, {"costs": ["wear"]}, {"costs": ["wear", "energy"]}]):
        fake_run(tmp_path / str(seed), curve, seeds=[seed], options=[options])
    fake_run(tmp_path / "limited", curve, seeds=[3], options=[LIMITED])
    fake_run(tmp_path / "both", curve, seeds=[4], options=[LIMITED | {"costs": ["energy"]}])
    assert sorted(setting.seeds for setting in read_results(tmp_path)) == [(0, 1, 2), (3, 4)]


def test_a_cost_that_not_all_seeds_recorded_is_left_out(tmp_path):
    run_with_costs(tmp_path / "a", 1.0, [0.5], FREE)
    fake_run(tmp_path / "b", dict.fromkeys(range(100, 1001, 100), 1.0), seeds=[1])
    run_with_costs(tmp_path / "limited", 1.0, [0.05], LIMITED)
    settings = read_results(tmp_path)
    assert sorted(setting.seeds for setting in settings) == [(0,), (0, 1)]
    (rates,) = cost_rates(settings)
    assert (rates.label, rates.kept) == ("APO limits=wear=0.1", (True,))


def test_settings_without_limits_keep_their_order(tmp_path):
    first = run_with_costs(tmp_path / "a", 1.0, [0.5], FREE)
    second = run_with_costs(tmp_path / "b", 2.0, [0.1], FREE | {"learning_rate": 1e-4})
    settings = read_results([first, second])
    costs = cost_rates(settings)
    assert feasible_first(settings, costs) == settings
    assert [each.limit for each in costs] == [None, None]


def test_settings_with_different_limits_have_each_its_own(tmp_path):
    loose = run_with_costs(tmp_path / "a", 1.0, [0.5], {"limits": {"wear": 0.6}})
    tight = run_with_costs(tmp_path / "b", 1.0, [0.5], {"limits": {"wear": 0.1}})
    free = run_with_costs(tmp_path / "c", 1.0, [0.5], FREE)
    found = {each.label: each for each in cost_rates(read_results([loose, tight, free]))}
    assert sorted((each.limit or 0, sum(each.kept)) for each in found.values()) == [
        (0, 1),  # it is not known by which one to measure it
        (0.1, 0),
        (0.6, 1),
    ]


def test_the_table_has_the_costs(runs, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "table.csv"
    compare_command([*map(str, runs), "--metric", "average_reward", "--out", str(out)])
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "wear (cost per step)" in shown
    assert "2 of 3" in shown and "1 of 3" in shown
    with out.open() as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "cost_wear"]
    assert [(row["limit"], row["kept"], row["scores"]) for row in rows] == [
        ("0.1", "2", "0.09 0.105 0.2"),
        ("0.1", "1", "0.5 0.6 0.09"),
    ]


def test_training_ends_with_the_costs_beside_their_limits(runs, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # a row in one line
    print_final(read_results(runs))
    shown = capsys.readouterr().out
    assert "Final score" in shown
    assert re.search(r"0.1317 \(seeds 0.09, 0.105, 0.2\)\W+0.1\W+2 of 3\b", shown)


def test_without_costs_training_ends_with_the_scores_alone(tmp_path, capsys):
    print_final(read_results([fake_run(tmp_path / "run", {100: 1.0})]))
    assert capsys.readouterr().out.splitlines() == [
        "APO on Drift-v0, seed 0, 100 steps",
        "average reward 1 per step [0, 2]  episode return 10",
    ]


def test_training_of_one_seed_ends_with_its_costs(tmp_path, capsys):
    print_final(read_results([run_with_costs(tmp_path / "run", 1.0, [0.2], LIMITED)]))
    assert "wear 0.2 per step (limit 0.1 not kept)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([10, 10], "the last evaluation; --eval-every 200 averages several"),
        ([40, 40], "mean of the 4 evaluations in the last 10 % of training"),
        ([20, 40], "mean of the 2 to 4 evaluations in the last 10 % of training"),
    ],
)
def test_a_final_score_says_of_how_many_evaluations_it_is(tmp_path, capsys, points, words):
    for index, number in enumerate(points):
        options = [{"gae_lambda": index / 10}]
        fake_run(tmp_path / f"{index}", rising(1, 4000, number), options=options)
    print_final(read_results([tmp_path / f"{index}" for index in range(len(points))]))
    assert f"Final score: {words}" in " ".join(capsys.readouterr().out.split())


def test_training_ends_with_how_many_evaluations_had_not_settled(tmp_path, capsys):
    curve = rising(1, 3000, 30)
    paths = [
        fake_run(tmp_path / env, curve, env=env, unsettled=late)
        for env, late in {"A-v0": [3000], "B-v0": [10], "C-v0": [2900, 3000]}.items()
    ]
    print_final(read_results(paths))
    words = (
        "3 of 9 evaluations in the final scores had not settled (APO on A-v0: 1, APO on C-v0: 2)"
    )
    out = " ".join(capsys.readouterr().out.split())
    assert f"{words}; --eval-steps N gives longer ones" in out
    print_final(read_results(paths[1:2]))
    assert "settled" not in capsys.readouterr().out


def test_data_frames_have_the_costs(runs):
    pytest.importorskip("pandas")
    frame = compare(runs, "average_reward").to_pandas()
    costs = frame[frame.metric == "cost_wear"]
    assert costs.limit.tolist() == [0.1, 0.1]
    assert costs.kept.tolist() == [2, 1]


def test_a_cost_is_drawn_with_its_limit(runs, tmp_path):
    out = tmp_path / "curves.svg"
    plot_command([*map(str, runs), "--out", str(out)])
    drawn = out.read_text()
    assert "wear (cost per step)" in drawn
    assert "dashed: limit" in drawn
    plot_command([*map(str, runs), "--metric", "average_reward", "--out", str(out)])
    assert "dashed: limit" not in out.read_text()


def test_the_report_prefers_settings_that_keep_the_limits(runs, tmp_path):
    folder = read_folder(tmp_path / "all")
    data = page_data(folder)
    by_reward = sorted(data["settings"], key=lambda s: s["final"]["average_reward"]["mean"])
    kept, free = by_reward
    assert (kept["kept"], free["kept"]) == (2, 1)
    assert kept["limits"] == {"cost_wear": 0.1}
    assert (kept["best"], free["best"]) == (True, False)
    assert data["result"].endswith("average reward 1, 3 seeds; others keep their limits less.")
    assert {"key": "cost_wear", "label": "wear (cost per step)", "kind": "evaluation"} in data[
        "metrics"
    ]
    assert kept["final"]["cost_wear"]["mean"] == pytest.approx(0.13167, rel=1e-3)
    assert [policy.label for policy in best_policies(folder)] == [kept["label"]]


@pytest.mark.parametrize("wrong", [-1, "wear", [["wear"]], [[1, 2]]])
def test_damaged_limits_are_named(runs, wrong):
    config = read_json(runs[1] / "config.json")
    change_config(runs[1], options=config["options"] | {"limits": wrong})
    with pytest.raises(FolderError, match=r"config\.json' is damaged: limits="):
        read_results(runs[1])
