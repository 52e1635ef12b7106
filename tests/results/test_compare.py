"""`longrun.compare` and `longrun compare`: the numbers, the tables, the files, wrong input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fake_runs import csv_rows, fake_run, fake_sweep, require_refusal, rising
from longrun import FolderError, InputError, compare, read_results
from longrun.cli.compare import compare_command
from longrun.lab.results.comparison import find_baseline
from longrun.lab.results.tables import TextTable, as_latex, as_markdown, latex_escaped, number_text
from svg_files import FIRST_COLOURS, heights_of_line, words_in

METRIC = "average_reward"


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """APO and PPO on two tasks, three seeds each: PPO is a little better on one of them."""
    runs = {}
    for env, heights in {"A-v0": (3, 1), "B-v0": (20, 22)}.items():
        for algorithm, height in zip(("apo", "ppo"), heights, strict=True):
            for seed in range(3):
                more = {"algorithm": algorithm, "env": env, "seeds": [seed]}
                runs[f"{algorithm}-{env}-{seed}"] = (rising(height + seed), more)
    return fake_sweep(tmp_path / "sweep", runs)


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert compare_command([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


# Tables.


def test_there_is_a_table_for_each_environment_and_one_over_all(sweep, capsys):
    out = shown(capsys, sweep, "--metric", "all")
    assert "2 environments: interquartile mean over seeds" in out
    counts = {"A-v0": 2, "B-v0": 2, "│ all tasks": 2, "baseline": 3}
    assert {words: out.count(words) for words in counts} == counts
    for metric in ("average reward", "episode return", "reward per step in"):
        assert metric in out
    assert "episode" not in shown(capsys, sweep), "one metric unless others are asked for"


def test_the_first_line_is_a_verdict(sweep, tmp_path, capsys):
    few = "Too few seeds (3) for a verdict between 2 settings on all tasks; APO has the highest"
    assert shown(capsys, sweep).startswith(few)
    for algorithm, height in {"apo": 1, "ppo": 1.1, "trpo": 9}.items():
        curves = [{100: height + k / 5} for k in range(5)]
        fake_run(tmp_path / "all" / algorithm, *curves, algorithm=algorithm)
    runs = {name: tmp_path / "all" / name for name in ("apo", "ppo", "trpo")}
    best = "TRPO discount=0.99 is best of 3 settings on Drift-v0: average reward 9.4 ["
    assert shown(capsys, *runs.values()).startswith(best)
    alike = "No clear difference between 2 settings on Drift-v0, 5 seeds\n"
    assert shown(capsys, runs["apo"], runs["ppo"]).startswith(alike)
    alone = shown(capsys, runs["apo"])
    assert "difference" not in alone and "best" not in alone and "P(better)" not in alone
    fake_run(tmp_path / "all" / "more", *[{100: 9.1 + k / 5} for k in range(5)], algorithm="atrpo")
    two = "No clear difference between ATRPO, TRPO discount=0.99 on Drift-v0, 5 seeds\n"
    assert two in shown(capsys, tmp_path / "all")


def test_the_numbers_are_those_of_the_seeds(sweep):
    found = compare(sweep)
    (row,) = (
        r for r in found.rows if (r.env, r.label, r.metric) == ("A-v0", "APO", "episode_return")
    )
    # Seeds end at 3, 4, 5; the last tenth holds the last evaluation alone; episodes of 10 steps.
    assert row.aggregates["mean"].value == pytest.approx(40)
    assert row.aggregates["iqm"].value == pytest.approx(40)
    assert (row.seeds, row.steps) == (3, 1000)
    improvements = {r.env: r.improvement for r in found.rows if r.label.startswith("PPO")}
    assert improvements["A-v0"].value == pytest.approx(0.5 / 9), "1, 2, 3 against 3, 4, 5"
    assert improvements["B-v0"].value == pytest.approx(8.5 / 9), "22, 23, 24 against 20, 21, 22"
    assert improvements[""].value == pytest.approx(0.5)


def test_few_seeds_are_shown_instead_of_an_interval(sweep, capsys):
    out = shown(capsys, sweep)
    assert "4 (seeds 3, 4, 5)" in out
    assert "Fewer than 5 seeds have no interval; they are in parentheses." in out
    assert "Intervals of 5 seeds cover" not in out


def test_five_seeds_have_an_interval(tmp_path, capsys):
    curves = {f"{seed}": (rising(seed), {"seeds": [seed]}) for seed in range(1, 6)}
    sweep = fake_sweep(tmp_path / "sweep", curves)
    (row,) = compare(sweep, "average_reward").rows
    assert row.scores == (1, 2, 3, 4, 5)
    assert 1 <= row.aggregates["iqm"].low < 3 < row.aggregates["iqm"].high <= 5
    out = shown(capsys, sweep)
    assert "3 [" in out and "no interval" not in out
    assert "Intervals of 5 seeds cover 88 to 96 % in simulations" in " ".join(out.split())
    assert "those of P(better)" not in out, "there is one setting"


def test_five_seeds_that_beat_all_others_are_not_certain_to(tmp_path, capsys):
    fake_run(tmp_path / "a", *({100: float(k)} for k in range(5)))
    fake_run(tmp_path / "b", *({100: 9.0 + k} for k in range(5)), options=[{"epochs": 5}])
    text = " ".join(shown(capsys, tmp_path).split())
    assert "1 [0.643, 1]" in text
    assert "those of P(better) 92 to 100 %" in text


@pytest.mark.parametrize(("points", "count"), [(10, 1), (20, 2), (30, 3)])
def test_a_final_score_of_few_evaluations_says_so(tmp_path, capsys, points, count):
    sweep = fake_sweep(tmp_path / "sweep", {"a": (rising(1, 3000, points), {})})
    assert {row.evaluations for row in compare(sweep).rows} == {count}
    out = " ".join(shown(capsys, sweep).split())
    note = "Final score: the last evaluation; --eval-every 150 averages several."
    assert (note in out) == (count < 2)
    assert "Final score" not in shown(capsys, sweep, "--best")


def test_final_scores_of_evaluations_that_have_not_settled_say_so(tmp_path, capsys):
    curve = rising(1, 3000, 30)  # three evaluations count
    fake_run(tmp_path / "a", curve, curve, unsettled=[100, 2900, 3000])
    fake_run(tmp_path / "b", curve, algorithm="ppo")
    found = {row.label: row.unsettled for row in compare(tmp_path).rows if row.metric == METRIC}
    assert found == {"APO": 4, "PPO discount=0.99": 0}
    note = "4 of 9 evaluations in the final scores had not settled (APO: 4); --eval-steps N gives"
    assert note in " ".join(shown(capsys, tmp_path).split())
    for more in (["--metric", "episode_return"], ["--best"], ["--at", 3000]):
        assert "settled" not in shown(capsys, tmp_path, *more)
    assert "settled" not in shown(capsys, tmp_path / "b")


def test_one_setting_on_two_tasks_has_no_table_over_both(tmp_path, capsys):
    curves = {env: (rising(1), {"env": env}) for env in ("A-v0", "B-v0")}
    sweep = fake_sweep(tmp_path / "sweep", curves)
    assert {row.env for row in compare(sweep).rows} == {"A-v0", "B-v0"}
    assert "all tasks" not in shown(capsys, sweep)


def test_the_same_few_evaluations_of_all_settings_are_one_number(sweep, capsys):
    out = " ".join(shown(capsys, sweep).split())
    assert out.count("Final score: the last evaluation") == 1


def test_over_all_tasks_scores_are_scaled(sweep):
    scores = compare(sweep).scores["average_reward"]
    assert scores["APO"].T.tolist() == [[0.5, 0.75, 1.0], [0.0, 0.25, 0.5]]
    single = [s for s in read_results(sweep) if s.env == "A-v0"]
    assert compare(single).scores["average_reward"]["APO"].T.tolist() == [[3.0, 4.0, 5.0]]


def test_paths_and_settings_give_the_same_comparison(sweep):
    of_settings = compare(read_results(sweep), "episode_return")
    for paths in (sweep, str(sweep), [str(sweep)], sorted((sweep / "runs").iterdir())):
        found = compare(paths, "episode_return")
        assert repr(found.rows) == repr(of_settings.rows)  # few seeds: NaN instead of intervals
    assert {row.metric for row in of_settings.rows} == {"episode_return"}


def test_a_comparison_in_python_refuses_what_it_does_not_know(sweep):
    with pytest.raises(InputError, match="unknown metric 'return'"):
        compare(sweep, ["return"])
    with pytest.raises(InputError, match="there is nothing to compare"):
        compare([])
    with pytest.raises(FolderError, match="is not a run folder"):
        compare("nowhere")


def test_the_same_runs_give_the_same_table(sweep, capsys):
    assert shown(capsys, sweep) == shown(capsys, sweep)


def test_a_setting_that_is_not_on_all_tasks_is_left_out_over_all_and_named(sweep, capsys):
    fake_run(sweep / "runs" / "more", rising(1), algorithm="trpo", env="A-v0")
    out = shown(capsys, sweep)
    assert "Not on all tasks: TRPO discount=0.99." in out
    assert out.count("TRPO disc") == 2  # its row, and this note


def test_a_task_without_scores_does_not_count_over_all_and_is_named(sweep, capsys):
    for seed in range(3):
        for algorithm in ("apo", "ppo"):
            more = {"algorithm": algorithm, "env": "C-v0", "seeds": [seed], "ends": False}
            fake_run(sweep / "runs" / f"{algorithm}-C-{seed}", rising(seed + 1), **more)
    out = shown(capsys, sweep, "--metric", "episode_return")
    assert "each of 2 tasks, from 0" in out and "episode return without C-v0: seeds lack a" in out
    out = shown(capsys, sweep, "--metric", "average_reward")
    assert "each of 3 tasks, from 0" in out and "without C-v0" not in out


def test_where_no_episode_ends_only_the_reward_rate_is_compared(tmp_path, capsys):
    run = fake_run(tmp_path / "run", rising(1), rising(2), ends=False)
    out = shown(capsys, run)
    assert "average reward" in out
    assert "episode" not in out
    assert compare(run).scores["episode_return"] == {}
    out = str(tmp_path / "profile.svg")
    with pytest.raises(InputError, match="no setting has a score in episode_return"):
        compare_command([str(run), "--metric", "episode_return", "--profile", out])


def test_one_metric_alone(sweep, capsys):
    out = shown(capsys, sweep, "--metric", "episode_return")
    assert "episode return" in out
    assert "average reward" not in out


def test_runs_of_two_versions_can_be_compared(tmp_path, capsys):
    for name, height in (("old", 1), ("new", 2)):
        fake_run(tmp_path / name, rising(height), rising(height))
    out = shown(capsys, tmp_path / "old", tmp_path / "new")
    assert "old: APO" in out
    assert "new: APO" in out
    assert "1 (seeds 1, 1)" in out


def test_settings_of_different_lengths_are_compared_with_a_warning(tmp_path, capsys):
    short = fake_run(tmp_path / "a", rising(1, steps=500))
    long = fake_run(tmp_path / "b", rising(1), algorithm="ppo")
    with pytest.warns(UserWarning, match="between 500 and 1,000 steps; longrun compare --at 500"):
        shown(capsys, short, long)
    assert "1,000" not in shown(capsys, short, long, "--at", "500")


def test_the_best_evaluation_counts_on_request(tmp_path, capsys):
    run = fake_run(tmp_path / "run", {100: 7.0, 1000: 3.0})
    assert " 7 " not in shown(capsys, run, "--metric", "average_reward")
    assert " 7 " in shown(capsys, run, "--metric", "average_reward", "--best")


def test_a_narrow_terminal_cuts_no_name_short(sweep, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    out = "".join(c for c in shown(capsys, sweep) if c not in "│ \n")
    assert "discount=0.99" in out


# The baseline.


def test_the_baseline_is_the_first_setting_or_the_one_named(sweep):
    settings = read_results(sweep)
    assert set(compare(settings).baselines.values()) == {"APO"}
    assert compare(settings, baseline="PPO discount=0.99").baselines[""] == "PPO discount=0.99"
    assert compare(settings, baseline="PPO").baselines[""] == "PPO discount=0.99"


def test_a_baseline_may_be_another_setting_on_each_task(sweep):
    settings = [
        replace(s, label=f"APO epochs={ord(s.env[0])}") if s.label == "APO" else s
        for s in read_results(sweep)
    ]
    assert compare(settings, baseline="APO").baselines == {
        "A-v0": "APO epochs=65",
        "B-v0": "APO epochs=66",
    }
    found = compare(settings, baseline="PPO")
    assert found.baselines[""] == "PPO discount=0.99"
    found = compare(settings)
    assert all(found.baselines[env].startswith("APO") for env in found.tasks)
    assert "" not in found.baselines
    assert all(row.improvement for row in found.rows if row.env and "PPO" in row.label)


def test_a_baseline_is_found_by_words_that_fit_one_setting_only():
    labels = ["APO epochs=4 gae_lambda=0.9", "APO epochs=4 gae_lambda=0.8", "PPO epochs=4"]
    assert find_baseline(labels, "APO gae_lambda=0.8") == labels[1]
    assert find_baseline(labels, "PPO") == labels[2]
    with pytest.raises(ValueError, match="baseline='APO' fits several: APO epochs=4 gae_l"):
        find_baseline(labels, "APO")
    with pytest.raises(
        ValueError, match="unknown baseline 'PPA epochs=4'; did you mean PPO epochs=4"
    ):
        find_baseline(labels, "PPA epochs=4")


# Files.


def test_tables_are_written_in_all_formats_by_ending(sweep, tmp_path, capsys):
    outs = [tmp_path / "deep" / f"table{ending}" for ending in (".csv", ".md", ".tex")]
    flags = [word for path in outs for word in ("--out", path)]
    out = shown(capsys, sweep, "--metric", "all", *flags)
    for path in outs:
        assert f"wrote {path}" in out.replace("\n", "")
    rows = csv_rows(outs[0])
    assert len(rows) == 3 * 3 * 2, "metrics, tasks and all of them, settings"
    first = rows[0]
    assert (first["env"], first["setting"], first["metric"]) == ("A-v0", "APO", "average_reward")
    assert (first["iqm"], first["iqm_low"], first["scores"]) == ("4", "", "3 4 5")
    assert first["evaluations"] == "1"
    assert first["improvement"] == ""
    assert rows[1]["improvement"] == "0.0555556"
    assert "| PPO discount=0.99 | 3 | 1,000 |" in outs[1].read_text()
    assert outs[2].read_text().count("\\toprule") == 1


def test_latex_is_escaped():
    assert latex_escaped("a_b & 5 % of $#{x}~^\\") == (
        r"a\_b \& 5 \% of \$\#\{x\}\textasciitilde{}\textasciicircum{}\textbackslash{}"
    )
    table = TextTable("A_b", {"setting": ["hidden_sizes=8"], "IQM [95 %]": ["[1]"]})
    assert as_latex(table).splitlines() == [
        "% A_b",
        r"\begin{tabular}{lr}",
        r"  \toprule",
        r"  setting & IQM {[}95 \%{]} \\",
        r"  \midrule",
        r"  hidden\_sizes=8 & {[}1{]} \\",
        r"  \bottomrule",
        r"\end{tabular}",
    ]


def test_markdown_is_escaped():
    table = TextTable("T", {"setting": ["x|y"], "b": ["1"]}, ["note"])
    lines = as_markdown(table).splitlines()
    assert lines[2:] == ["| setting | b |", "| --- | ---: |", r"| x\|y | 1 |", "", "note"]


def test_numbers_are_short_and_plain():
    assert number_text(1253.7, 3) == "1254"
    assert number_text(0.123456, 3) == "0.123"
    assert number_text(-1234567, 3) == "-1.23e+06"


@pytest.mark.parametrize("tasks", ["one", "several"])
@pytest.mark.usefixtures("laid_out")
def test_profiles_are_drawn(tasks, sweep, tmp_path, capsys):
    paths = [sweep] if tasks == "several" else sorted((sweep / "runs").glob("*A-v0*"))
    out = tmp_path / "profile.svg"
    assert f"wrote {out}" in shown(capsys, *paths, "--profile", out).replace("\n", "")
    scaled = {"one": ["A-v0", "average reward"], "several": ["2 tasks", "average reward (scaled)"]}
    words = words_in(out)
    for text in (*scaled[tasks], "APO", "PPO discount=0.99", "share of runs above it"):
        assert words.count(text) == 1, text
    # APO ends at 3, 4, 5 and PPO at 1, 2, 3: shares fall by thirds, or by sixths of two tasks.
    steps = {"one": 3, "several": 6}[tasks]
    for colour in FIRST_COLOURS[:2]:
        assert 3 <= len(set(heights_of_line(out, colour))) - 1 <= steps


@pytest.mark.parametrize(
    ("seeds", "about"),
    [
        (4, "no interval with fewer than 5 seeds"),
        (5, "band: nominal 95 % interval (5 seeds or more)"),
    ],
)
def test_profiles_of_few_seeds_have_no_band(seeds, about, tmp_path, capsys):
    run, out = fake_run(tmp_path / "run", *map(rising, range(1, seeds + 1))), tmp_path / "a.svg"
    shown(capsys, run, "--profile", out)
    assert about in words_in(out)
    assert ("opacity: 0.15" in out.read_text()) == (seeds == 5)


# Wrong input.

REFUSED = {
    "no run": (["nowhere"], "'nowhere' is not a run folder"),
    "nothing": ([], "required: runs"),
    "metric": (["RUN", "--metric", "episode_retrun"], "did you mean episode_return"),
    "baseline": (["RUN", "--baseline", "SAC"], "unknown baseline 'SAC'; valid: APO"),
    "table": (
        ["RUN", "--out", "table.xls"],
        "table.xls: '.xls' is not a table format; use .csv, .md, .tex",
    ),
    "picture": (
        ["RUN", "--profile", "profile.txt"],
        "profile.txt: '.txt' is not a picture format",
    ),
    "too early": (["RUN", "--at", "5"], "at=5: Drift-v0 APO was first evaluated at 100 steps"),
    "no number": (["RUN", "--at", "early"], "--at"),
    "option": (["RUN", "--basline", "APO"], "--baseline"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_input_is_refused_in_one_line(what, tmp_path, monkeypatch):
    require_refusal(compare_command, *REFUSED[what], tmp_path, monkeypatch)


def test_settings_are_in_the_order_of_their_numbers(tmp_path):
    for k, discount in enumerate((0.95, 0.9, 0.999, 0.25, 0.3)):
        fake_run(
            tmp_path / f"run-{k}", {100: 1.0}, algorithm="ppo", options=[{"discount": discount}]
        )
    labels = [setting.label for setting in read_results(tmp_path)]
    assert labels == [f"PPO discount={x}" for x in (0.25, 0.3, 0.9, 0.95, 0.999)]


def test_what_is_given_first_stays_first(tmp_path):
    for name, epochs in (("a", 5), ("b", 4)):
        fake_run(tmp_path / name, {100: 1.0}, options=[{"epochs": epochs}])
    labels = [s.label for s in read_results([tmp_path / "a", tmp_path / "b"])]
    assert labels == ["APO epochs=5", "APO epochs=4"]


def test_two_seeds_have_no_interval_of_the_probability_to_be_better(tmp_path, capsys):
    fake_run(tmp_path / "a", {100: 1.0}, {100: 2.0})
    fake_run(tmp_path / "b", {100: 3.0}, {100: 4.0}, options=[{"epochs": 5}])
    text = shown(capsys, tmp_path)
    assert "P(better)" in text and "[1, 1]" not in text
