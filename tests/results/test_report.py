"""The HTML page: its numbers, that nothing in the data can harm it, and how it behaves."""

from __future__ import annotations

import base64
import dataclasses
import fcntl
import json
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from longrun import APO
from longrun.cli.report import report_command
from longrun.config import make_config
from longrun.files import write_json
from longrun.results.report import frames
from longrun.results.report.curves import TRAINING
from longrun.results.report.data import page_data
from longrun.results.report.page import as_json, write_report
from longrun.results.report.runs import read_folder

COLUMNS = (
    "replica,seed,step,average_reward,average_reward_low,average_reward_high,episode_return,"
    "episode_length"
)
NASTY = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1> & \"'"


def write_run(
    path: Path,
    rewards: Sequence[Sequence[float]],
    env: str = "Swimmer-v5",
    algorithm: str = "apo",
    first_seed: int = 0,
    iterations: int = 0,
    finished: bool = True,
    **options: Any,
) -> Path:
    """A run folder of a replica for each list of rewards, evaluated every 1000 steps."""
    last = 1000 * max(map(len, rewards), default=0) or 1000
    config = {
        "algorithm": algorithm,
        "env": env,
        "steps": last,
        "options": dataclasses.asdict(make_config(algorithm)) | options,
        "replicas": [{"seed": first_seed + k} for k in range(max(len(rewards), 1))],
        "preset": "paper",
        "versions": {"longrun": "0.1.0", "jax": "1.2.3"},
        "command": ["longrun", "train", algorithm],
        "created": "2026-11-15T10:00:00+0000",
    }
    write_json(path / "config.json", config)
    rows = [
        f"{k},{first_seed + k},{1000 * (i + 1)},{r},{r - 1},{r + 1},{500 * r},{250}"
        for k, mine in enumerate(rewards)
        for i, r in enumerate(mine)
    ]
    if rows:
        (path / "evaluations.csv").write_text("\n".join([COLUMNS, *rows, ""]))
    if iterations:
        lines = [f"0,{first_seed},{10 * (i + 1)},{i + 1},0.5" for i in range(iterations)]
        (path / "metrics.csv").write_text("\n".join(["replica,seed,step,gain,kl", *lines, ""]))
    if finished:
        write_json(path / "summary.json", {"steps": last})
    return path


def write_sweep(path: Path) -> Path:
    """Three settings of APO on one task, one of them with a single seed, and one of two on another.

    The seeds are runs of their own, as a sweep has them.
    """
    places = {0.0: ((1, 2), (1, 4)), 0.1: ((2, 5), (2, 7)), 0.3: ((0, 1),)}
    for nu, seeds in places.items():
        for seed, rewards in enumerate(seeds):
            name = f"Swimmer-v5_apo_value_constraint={nu}_seed{seed}"
            more = {"first_seed": seed, "iterations": 20, "value_constraint": nu}
            write_run(path / "runs" / name, [rewards], **more)
    write_run(path / "runs" / "Hopper-v5_apo_seed0", [(3, 9)], env="Hopper-v5")
    write_run(path / "runs" / "Hopper-v5_ppo_seed0", [(3, 8)], env="Hopper-v5", algorithm="ppo")
    write_json(path / "sweep.json", {"command": ["longrun", "sweep"], "runs": [{"name": "later"}]})
    failure = {"run": "Ant-v5_apo_seed0", "error": "NonFiniteError: the loss is NaN", "attempts": 2}
    write_json(path / "failures.json", [failure])
    return path


def data_of(path: Path) -> dict[str, Any]:
    return page_data(read_folder(path, list(TRAINING)))


# Numbers.


def test_final_figures_are_means_of_the_last_evaluation_with_students_interval(tmp_path):
    [setting] = data_of(write_run(tmp_path, [[1, 2], [1, 4]]))["settings"]
    reach = 12.706  # Student's with one degree of freedom, times the error sqrt(2) / sqrt(2) = 1
    expected = {"mean": 3.0, "low": 3 - reach, "high": 3 + reach}
    assert setting["final"]["average_reward"] == pytest.approx(expected, abs=1e-3)
    assert setting["final"]["episode_return"]["mean"] == 1500
    assert setting["final"]["episode_average_reward"]["mean"] == 6  # 1500 / 250
    assert setting["final"]["iqm"]["mean"] == 3
    assert (setting["step"], setting["seeds"]) == (2000, [0, 1])


def test_curves_have_every_seed_and_their_mean(tmp_path):
    [setting] = data_of(write_run(tmp_path, [[1, 2], [1, 4]]))["settings"]
    assert setting["evaluation"]["steps"] == [1000, 2000]
    curve = setting["evaluation"]["curves"]["average_reward"]
    assert (curve["seeds"], curve["mean"]) == ([[1, 2], [1, 4]], [1, 3])
    assert curve["low"][0] == curve["high"][0] == 1


def test_the_mean_of_a_single_seed_is_not_written_twice(tmp_path):
    [setting] = data_of(write_run(tmp_path, [[1, 2]]))["settings"]
    assert setting["evaluation"]["curves"]["average_reward"] == {"seeds": [[1, 2]]}


def test_seeds_of_several_runs_are_one_setting(tmp_path):
    data = data_of(write_sweep(tmp_path))
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
    [setting] = data_of(write_run(tmp_path, [[1.0]], iterations=1000))["settings"]
    training = setting["training"]
    assert len(training["steps"]) == 200
    assert training["steps"][:2] == [50, 100]
    assert training["curves"]["gain"]["seeds"][0][:2] == [3, 8]  # means of 1..5 and 6..10
    assert set(training["curves"]) == {"gain", "kl"}


def test_the_first_line_says_who_earns_most(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    write_run(one / "runs" / "a", [[2.0], [2.1], [2.2]], value_constraint=0.0)
    write_run(one / "runs" / "b", [[5.0], [5.1], [5.2]], value_constraint=0.3)
    write_json(one / "sweep.json", {"runs": []})
    assert data_of(one)["result"] == (
        "On Swimmer-v5, APO value_constraint=0.3 earns most: 5.1 [4.85, 5.35] per step (3 seeds),"
        " ahead of APO value_constraint=0.0 with 2.1 [1.85, 2.35], and their 95 % intervals do not"
        " overlap."
    )
    assert data_of(write_sweep(two))["result"].startswith("Highest average reward per step, Hopper")


def test_options_tell_what_differs_and_what_is_not_the_default(tmp_path):
    options = {o["name"]: o for o in data_of(write_sweep(tmp_path))["options"]}
    assert options["value_constraint"]["differs"] and not options["gae_lambda"]["differs"]
    assert options["gae_lambda"]["values"] == [options["gae_lambda"]["default"]] == ["0.95"]


def test_the_same_setting_and_seed_twice_are_two_settings(tmp_path):
    for name in ("old", "new: better"):
        write_run(tmp_path / name, [[1.0]], value_constraint=0.3)
    settings = data_of(tmp_path)["settings"]
    assert sorted(s["name"].split(": APO")[0] for s in settings) == ["new: better", "old"]


# What is missing or wrong.


def test_failed_waiting_and_unfinished_runs_are_listed(tmp_path):
    sweep = write_sweep(tmp_path)
    write_run(sweep / "runs" / "slow", [], iterations=7, finished=False, gae_lambda=0.5)
    found = {(p["run"], p["state"]): p["text"] for p in data_of(sweep)["problems"]}
    assert found["Ant-v5_apo_seed0", "failed"] == "NonFiniteError: the loss is NaN (2 attempts)"
    assert found["later", "waiting"] == "not begun"
    assert found["slow", "unfinished"] == "70 of 1,000 steps, no evaluation yet"


def test_a_run_that_was_given_more_steps_is_unfinished_again(tmp_path):
    write_run(tmp_path, [[1.0]])
    config = json.loads((tmp_path / "config.json").read_text())
    write_json(tmp_path / "config.json", config | {"steps": 5000})
    assert [p["state"] for p in data_of(tmp_path)["problems"]] == ["unfinished"]


def test_a_damaged_run_hides_no_other_and_is_told_of(tmp_path):
    sweep = write_sweep(tmp_path)
    (sweep / "runs" / "broken").mkdir()
    (sweep / "runs" / "broken" / "config.json").write_text("{")
    data = data_of(sweep)
    assert len(data["settings"]) == 5
    assert any("broken" in p["text"] for p in data["problems"] if p["state"] == "note")


def test_runs_without_evaluations_or_episodes_make_a_page(tmp_path):
    data = data_of(write_run(tmp_path / "begun", [], iterations=3, finished=False))
    assert data["result"] == "No policy was evaluated yet."
    assert [m["key"] for m in data["metrics"]] == ["gain", "kl"]
    endless = write_run(tmp_path / "endless", [[1.0]])
    file = endless / "evaluations.csv"
    file.write_text(file.read_text().replace(",500.0,250", ",nan,nan"))
    data = data_of(endless)
    assert [m["key"] for m in data["metrics"]] == ["average_reward"]
    json.dumps(data, allow_nan=False)


def test_numbers_that_are_none_are_gaps(tmp_path):
    write_run(tmp_path, [[1.0], [2.0]])
    rows = ["0,0,10,inf", "1,1,10,1", "0,0,20,nan", "1,1,20,1", "0,0,30,2", "1,1,30,4"]
    (tmp_path / "metrics.csv").write_text("\n".join(["replica,seed,step,gain", *rows, ""]))
    [setting] = data_of(tmp_path)["settings"]
    curve = setting["training"]["curves"]["gain"]
    assert (curve["seeds"], curve["mean"]) == ([[None, None, 2], [1, 1, 4]], [None, None, 3])


def test_a_seed_far_behind_does_not_count(tmp_path):
    for seed, rewards in enumerate(([1, 2, 3], [1, 2, 5], [9])):
        write_run(tmp_path / "runs" / str(seed), [rewards], first_seed=seed)
    write_json(tmp_path / "sweep.json", {"runs": []})
    data = data_of(tmp_path)
    [setting] = data["settings"]
    assert (setting["seeds"], setting["final"]["average_reward"]["mean"]) == ([0, 1], 4)
    assert any("left out is seed 2" in p["text"] for p in data["problems"])


def test_a_sweep_of_failures_alone_makes_a_page(tmp_path):
    write_json(tmp_path / "sweep.json", {"runs": []})
    write_json(tmp_path / "failures.json", [{"run": "a", "error": "no", "attempts": 1}])
    write_report(tmp_path, tmp_path / "page.html", frames=False)
    assert data_of(tmp_path)["problems"] == [{"run": "a", "state": "failed", "text": "no"}]


def test_wrong_input_is_refused_in_one_line(tmp_path):
    for arguments in ([str(tmp_path)], [str(tmp_path / "nowhere")]):
        with pytest.raises(ValueError, match="is no run and no sweep") as error:
            report_command(arguments)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"--out page\.pdf must end in \.html"):
        report_command([str(tmp_path), "--out", "page.pdf"])


# The file.


def test_the_command_writes_one_file_that_refers_to_no_other(tmp_path, capsys):
    out = tmp_path / "page.html"
    assert report_command([str(write_sweep(tmp_path / "s")), "--out", str(out), "--no-frames"]) == 0
    assert f"wrote {out}" in capsys.readouterr().out
    text = out.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert re.findall(r"https?://[^\s\"']+", text) == ["http://www.w3.org/2000/svg"]  # a name only


def test_text_cannot_end_the_data_or_open_an_element(tmp_path):
    assert json.loads(as_json({"a": NASTY})) == {"a": NASTY}
    assert "<" not in as_json({"a": NASTY + "<!--"})
    run = write_run(tmp_path / NASTY.replace("/", ""), [[1.0]], env=NASTY)
    write_report(run, tmp_path / "page.html", frames=False)
    text = (tmp_path / "page.html").read_text()
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img" not in text


def test_a_hundred_runs_make_a_page_of_less_than_three_megabytes(tmp_path):
    for run in range(100):
        rewards = [[run / 7 + i / 13 for i in range(40)]]
        where, nu = tmp_path / "runs" / f"r{run}", (run // 5) / 100
        write_run(where, rewards, first_seed=run % 5, value_constraint=nu)
        names = list(TRAINING)
        rows = [
            f"0,{run % 5},{100 * i},{','.join(f'{(i + run) / 7.1:.6g}' for _ in names)}"
            for i in range(1, 301)
        ]
        header = f"replica,seed,step,{','.join(names)}"
        (where / "metrics.csv").write_text("\n".join([header, *rows, ""]))
    write_json(tmp_path / "sweep.json", {"runs": []})
    write_report(tmp_path, tmp_path / "page.html", frames=False)
    assert 500_000 < (tmp_path / "page.html").stat().st_size < 1_600_000  # and 1.4 MB of pictures


# Pictures.


@pytest.fixture(scope="module")
def swimmer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a policy, if not a good one."""
    run = write_run(tmp_path_factory.mktemp("run"), [[1.0, 2.0]], hidden_sizes=[8])
    APO("Swimmer-v5", hidden_sizes=(8,), num_workers=0).save(run)
    return run


def test_the_first_seed_of_the_best_setting_is_filmed(tmp_path):
    first, other = frames.best_policies(read_folder(write_sweep(tmp_path), []).groups)
    assert (first.env, other.env) == ("Hopper-v5", "Swimmer-v5")
    assert first.label.startswith("APO")  # 9 against 8
    assert other.label.endswith("value_constraint=0.1")
    assert (other.replica.seed, other.replica.number) == (0, 0)


def test_a_film_is_an_animation_with_stills(swimmer):
    [policy] = frames.best_policies(read_folder(swimmer, []).groups)
    film = frames.film(policy)
    if "note" in film:
        assert "LONGRUN_CI" not in os.environ, film["note"]
        pytest.skip(film["note"])
    assert len(film["animation"]) < 600_000
    kind, _, content = film["animation"].partition(",")
    assert kind == "data:image/webp;base64"
    assert b"ANIM" in base64.b64decode(content)[:64]
    assert len(film["stills"]) == 6
    assert all(re.fullmatch(r"\d\.\d s: .* per step", s["caption"]) for s in film["stills"])


def test_without_opengl_a_line_says_so(swimmer, tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "glfw")  # which needs a display
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    write_report(swimmer, tmp_path / "page.html")
    data = re.search(r'id="data">(.*?)</script>', (tmp_path / "page.html").read_text())
    [film] = json.loads(data[1])["frames"]
    assert film["note"].startswith("OpenGL cannot draw here")
    assert "\n" not in film["note"]


def test_environments_inside_the_program_have_no_pictures(tmp_path):
    run = write_run(tmp_path, [[1.0]], env="jax:criss-cross?regime=BM")
    assert frames.best_policies(read_folder(run, []).groups) == []


# In the browser.


class Browser:
    """Chromium over the pipe of its DevTools protocol: JSON texts that end in a zero byte."""

    def __init__(self, program: str, folder: Path) -> None:
        low = (*os.pipe(), *os.pipe())  # might be 3 and 4 themselves, which Chromium listens to
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in low]
        for fd in low:
            os.close(fd)
        theirs_in, self._to, self._from, theirs_out = ends
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        where = ["--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        redirected = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirected, "", program, *flags, *where],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._read, self._count, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self.call("Browser.close")
        self._process.wait(30)
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **params: Any) -> Any:
        self._count += 1
        where = {} if self._session is None else {"sessionId": self._session}
        message = {"id": self._count, "method": method, "params": params} | where
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._count:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + 60
        while b"\0" not in self._read:
            ready = select.select([self._from], [], [], max(0, end - time.monotonic()))[0]
            chunk = os.read(self._from, 1 << 16) if ready else b""
            assert chunk, "Chromium does not answer"
            self._read += chunk
        text, _, self._read = self._read.partition(b"\0")
        return json.loads(text)

    def open(self, path: Path) -> None:
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._next())

    def js(self, expression: str) -> Any:
        options = {"returnByValue": True, "awaitPromise": True}
        found = self.call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def place(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width, height of an element, brought into view."""
        x, y, width, height = self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.x, r.y, r.width, r.height]; })()"
        )
        return x, y, width, height

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, **more)

    def click(self, selector: str) -> None:
        x, y, width, height = self.place(selector)
        self.drag((x + width / 2, y + height / 2), (x + width / 2, y + height / 2))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.mouse("Moved", *start)
        self.mouse("Pressed", *start, button="left", clickCount=1)
        if start != end:
            self.mouse("Moved", *end, button="left", buttons=1)
        self.mouse("Released", *end, button="left", clickCount=1)

    def choose(self, selector: str, value: str) -> None:
        self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            f" e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change')); }})()"
        )

    def texts(self, selector: str) -> list[str]:
        found = f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
        return list(self.js(found))

    def count(self, selector: str) -> int:
        return len(self.texts(selector))

    def errors(self) -> list[Any]:
        """What the page complained of."""
        self.js("1")
        bad = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self.events if event.get("method") in bad]


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


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Browser:
    write_report(write_sweep(tmp_path / "sweep"), tmp_path / "page.html", frames=False)
    browser.open(tmp_path / "page.html")
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
    assert page.texts("#y-label") == ["average reward per step"]
    before = page.js("document.querySelector('path.mean').getAttribute('d')")
    page.choose("#metric", "gain")
    assert page.texts("#y-label") == ["gain (learned average reward)"]
    assert page.js("document.querySelector('path.mean').getAttribute('d')") != before


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
    assert (bands, seeds) == (2, 5)  # a single seed has no interval


def test_the_table_sorts_by_a_click_on_a_header(page):
    page.click("[data-column='seeds']")
    assert page.texts("#table tbody td:nth-child(3)") == ["2", "2", "1", "1", "1"]
    page.click("[data-column='seeds']")
    assert page.texts("#table tbody td:nth-child(3)") == ["1", "1", "1", "2", "2"]
    assert page.js("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "ascending"
    page.click("[data-column='episode_return']")
    rows = "[...document.querySelectorAll('#table tbody tr')]"
    returns = [float(t) for t in page.js(f"{rows}.map((row) => row.children[6].firstChild.data)")]
    assert returns == sorted(returns, reverse=True) == [4500, 4000, 3000, 1500, 500]


def test_hovering_and_arrow_keys_tell_the_numbers(page):
    x, y, width, height = page.place("#plot")
    page.mouse("Moved", x + width - 12, y + height / 2)
    [tip] = page.texts(".tip")
    assert tip.startswith("2,000 steps")
    assert "value_constraint=0.16 [" in tip  # the name, then the mean of 5 and 7
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
        write_run(tmp_path / "runs" / str(k), [[k, k]], value_constraint=k / 100)
    write_json(tmp_path / "sweep.json", {"runs": []})
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
    page.js("new Promise((done) => setTimeout(done, 50))")  # a fold tells of its opening later
    assert '"algorithm": "apo"' in page.texts("#runs pre")[0]


def test_nasty_names_are_shown_as_they_are(browser, tmp_path):
    sweep = tmp_path / "sweep"
    for nu in (0.0, 0.1):
        name = NASTY.replace("/", "") + str(nu)
        more = {"value_constraint": nu, "termination": NASTY.replace(" ", "")}
        write_run(sweep / "runs" / name, [[1.0, 2.0]], env=NASTY, **more)
    write_json(sweep / "sweep.json", {"command": [NASTY], "runs": []})
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
