"""The HTML page in a browser: what it shows, and how it answers to clicks and keys."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import Browser
from fake_runs import change_config, fake_run
from longrun.base.files import write_json
from longrun.lab.report.page import write_report
from longrun.learning.runs.evaluation_report import CostRate
from report_runs import NASTY, report_run, report_sweep


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        assert "LONGRUN_CI" not in os.environ, "Chromium is missing, and .ci/run installs it"
        pytest.skip("Chromium is not installed")
    browser = Browser(program, tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(report_sweep(folder / "sweep"), folder / "page.html", frames=False)
    return folder / "page.html"


@pytest.fixture
def page(browser: Browser, report: Path) -> Browser:
    browser.open(report)
    browser.choose("#environment", "Swimmer-v5")
    return browser


def test_the_page_draws_its_curves_without_errors_or_requests(page):
    assert page.errors() == []
    assert page.count("#series path.mean") == 3
    assert page.texts("h1") == ["APO, PPO on 2 environments"]
    asked = [e["params"]["request"]["url"] for e in page.events if "request" in e.get("params", {})]
    assert asked
    assert all(url.startswith(("file:///", "data:")) for url in asked)


def test_the_page_may_not_load_anything(page):
    blocked = page.js(
        "new Promise((done) => { document.addEventListener('securitypolicyviolation',"
        " (e) => done(e.violatedDirective)); new Image().src = 'http://127.0.0.1:9/x.png'; })"
    )
    assert blocked == "img-src"


def test_ticking_a_setting_off_removes_its_curve(page):
    first = page.js("document.querySelector('#legend input').dataset.setting")
    page.click(f"#legend input[data-setting='{first}']")
    assert page.count("#series .series") == 2
    assert page.count(f"#series .series[data-setting='{first}']") == 0
    page.click(f"#legend input[data-setting='{first}']")
    assert page.count("#series .series") == 3


def test_the_metric_changes_axis_and_curves(page):
    assert page.texts("#y-label") == ["average reward"]
    before = page.js("document.querySelector('path.mean').getAttribute('d')")
    page.choose("#metric", "gain")
    assert page.texts("#y-label") == ["gain (learned average reward)"]
    assert page.js("document.querySelector('path.mean').getAttribute('d')") != before


def test_a_cost_is_drawn_with_its_limit(browser, tmp_path):
    costs = [{"wear": CostRate(0.2, 0.1, 0.3)}]
    curve = dict.fromkeys((500, 1000), 1.0)
    fake_run(tmp_path / "run", curve, options=[{"limits": {"wear": 0.05}}], costs=costs)
    write_report(tmp_path / "run", tmp_path / "page.html", frames=False)
    browser.open(tmp_path / "page.html")
    assert browser.count("#series .limit") == 0
    browser.choose("#metric", "cost_wear")
    assert browser.errors() == []
    assert browser.texts("#series .limit-label") == ["limit 0.05"]
    assert "0 of 1" in " ".join(browser.texts("#table td"))


def test_the_environment_changes_settings(page):
    page.choose("#environment", "Hopper-v5")
    assert page.texts("#legend label") == ["APO value_constraint=0.1", "PPO discount=0.99"]
    assert page.count("#series path.mean") == 2


def test_filters_leave_settings_out(page):
    page.click("[data-filter='value_constraint'] label:nth-child(2) input")
    names = page.texts("#legend label")
    assert len(names) == page.count("#series path.mean") == 2
    assert not any("0.1" in name for name in names)
    assert page.count("#table tbody tr") == 3  # two here, PPO's there: it has no such option
    assert "2 filtered out" in page.texts("#table-note")[0]


def test_seeds_and_intervals_can_be_shown(page):
    page.click("#looks label:nth-child(2) input")
    page.click("#looks label:nth-child(3) input")
    bands, seeds = page.count("path.band"), page.count("path.seed")
    assert (bands, seeds) == (0, 5)  # one or two seeds have no interval


def test_five_seeds_have_an_interval(browser, tmp_path):
    report_run(tmp_path / "run", [[1.0, 2.0 + k] for k in range(5)])
    write_report(tmp_path / "run", tmp_path / "page.html", frames=False)
    browser.open(tmp_path / "page.html")
    assert browser.count("path.band") == 1
    x, y, width, height = browser.place("#plot")
    browser.mouse("Moved", x + width - 12, y + height / 2)
    assert re.search(r"4 \[\d", browser.texts(".tip")[0])


def test_a_single_evaluation_has_a_large_mean_and_small_seeds(browser, tmp_path):
    report_run(tmp_path / "a" / "two", [[1.0], [3.0]])
    report_run(tmp_path / "a" / "one", [[2.0]], value_constraint=0.3)
    write_report(tmp_path / "a", tmp_path / "page.html", frames=False)
    browser.open(tmp_path / "page.html")
    assert browser.errors() == []
    sizes = "[...document.querySelectorAll('#series circle')].map((c) => c.getAttribute('r'))"
    assert sorted(browser.js(sizes)) == ["4", "4", "7", "7"]  # the single seed is the mean
    assert browser.texts("#hint")[0].startswith("Large points: mean, small ones: seeds.")


def test_scores_of_few_seeds_are_shown_with_the_same_digits(browser, tmp_path):
    report_run(tmp_path / "run", [[0.5, 0.7261], [0.5, 0.7332], [0.5, 0.7069]])
    write_report(tmp_path / "run", tmp_path / "page.html", frames=False)
    browser.open(tmp_path / "page.html")
    assert "(seeds 0.7261, 0.7332, 0.7069)" in " ".join(browser.texts("#table td"))


def test_the_table_sorts_by_a_click_on_a_header(page):
    page.click("[data-column='seeds']")
    assert page.texts("#table tbody td:nth-child(3)") == ["2", "2", "1", "1", "1"]
    page.click("[data-column='seeds']")
    assert page.texts("#table tbody td:nth-child(3)") == ["1", "1", "1", "2", "2"]
    assert page.js("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "ascending"
    page.click("[data-column='episode_return']")
    rows = "[...document.querySelectorAll('#table tbody tr')]"
    returns = [float(t) for t in page.js(f"{rows}.map((row) => row.children[6].firstChild.data)")]
    assert returns == sorted(returns, reverse=True) == [90, 80, 60, 30, 10]


def test_hovering_and_arrow_keys_tell_the_numbers(page):
    x, y, width, height = page.place("#plot")
    page.mouse("Moved", x + width - 12, y + height / 2)
    [tip] = page.texts(".tip")
    assert tip.startswith("2,000 steps")
    assert "value_constraint=0.16 " in tip  # the name, then the mean of 5 and 7
    page.js("document.getElementById('plot').focus()")
    for _ in range(2):
        page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft")
    assert page.texts(".tip strong") == ["1,000 steps"]
    assert page.texts("#live")[0].startswith("1,000 steps. ")


def test_dragging_zooms_and_escape_goes_back(page):
    ticks = page.texts("#plot text")
    x, y, width, height = page.place("#plot")
    page.drag((x + width / 2, y + height / 2), (x + width * 0.8, y + height / 2))
    zoomed = page.texts("#plot text")
    assert zoomed != ticks
    assert "2k" not in zoomed
    assert page.texts("#hint button") == ["reset zoom"]
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    assert page.texts("#plot text") == ticks


def test_of_many_settings_the_best_are_ticked_and_a_list_filters(browser, tmp_path):
    for k in range(12):
        report_run(tmp_path / "runs" / str(k), [[k, k]], value_constraint=k / 100)
    write_json(tmp_path / "sweep.json", {"runs": {}})
    write_report(tmp_path, tmp_path / "page.html", frames=False)
    browser.open(tmp_path / "page.html")
    assert browser.texts("#count") == ["10 of 12 shown"]
    assert browser.count("#legend li.off") == browser.count("#legend li") - 10 == 2
    browser.choose("#filter-value_constraint", "11")
    assert browser.texts("#legend label") == ["APO value_constraint=0.11"]
    assert browser.count("#series path.mean") == 1
    browser.choose("#filter-value_constraint", "")
    assert browser.count("#series path.mean") == 10


def test_keys_zoom_and_never_beyond_the_curves(page):
    ticks = page.texts("#plot text")
    page.js("document.getElementById('plot').focus()")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="+")
    assert page.texts("#plot text") != ticks
    for _ in range(2):
        page.call("Input.dispatchKeyEvent", type="keyDown", key="-")
    assert page.texts("#plot text") == ticks


def test_nothing_sticks_out_of_a_phone(page):
    try:
        screen = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
        page.call("Emulation.setDeviceMetricsOverride", **screen)
        assert page.js("document.documentElement.scrollWidth") <= 360
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")


def test_what_failed_and_the_configuration_are_there(page):
    rows = page.texts("#problems tbody tr")
    assert any("Ant-v5_apo_seed0" in row and "2 attempts" in row for row in rows)
    page.click("#runs > summary")
    page.click("#runs details summary")
    page.js("new Promise((done) => setTimeout(done, 50))")  # the toggle event comes later
    assert '"algorithm": "apo"' in page.texts("#runs pre")[0]


def test_only_values_that_are_not_the_default_are_marked(page):
    assert page.texts("#differing mark") == ["0.0", "0.3"]  # of APO's value_constraint
    assert page.count("#differing tbody tr") == 4
    assert page.texts("#configuration .options mark") == []
    note = page.texts("#configuration .hint")
    assert note == ["Marked: not the default of the algorithm and its preset."]


def test_nasty_names_are_shown_as_they_are(browser, tmp_path):
    sweep = tmp_path / "sweep"
    for nu in (0.0, 0.1):
        name = NASTY.replace("/", "") + str(nu)
        run = report_run(sweep / "runs" / name, [[1.0, 2.0]], env=NASTY, value_constraint=nu)
        change_config(run, name=NASTY)
    write_json(sweep / "sweep.json", {"command": [NASTY], "runs": {}})
    write_json(sweep / "failures.json", [{"run": NASTY, "error": NASTY, "attempts": 1}])
    write_report(sweep, tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert browser.errors() == []
    assert browser.js("typeof window.pwned") == "undefined"
    assert browser.texts("h1") == [f"APO on {NASTY}"]
    assert NASTY in browser.texts("#problems td")
    assert browser.count("script") == 2
    assert browser.count("img") == 0
    assert browser.count("#series path.mean") == 2
