"""Ctrl-C and SIGTERM while training."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from fake_workers import launch
from longrun import APO
from longrun.learning.train.stop_signals import stop_signals
from tiny_envs import GATE, ITERATION, TINY, TINY_FLAGS, Drift, wait_until


@pytest.fixture(autouse=True)
def usual_handlers() -> Any:
    """Those of a program in the foreground; a background job ignores SIGINT."""
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(0.01)


def test_a_signal_is_noted_and_a_second_one_raises() -> None:
    with stop_signals() as request:
        assert not request
        send(signal.SIGINT)
        assert request and request.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with pytest.raises(KeyboardInterrupt):
        request.obey()


def test_handlers_of_the_caller_are_left_alone() -> None:
    noted: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    with stop_signals() as request:
        send(signal.SIGINT)
        assert noted == [signal.SIGINT] and not request


def test_other_threads_have_no_signals() -> None:
    found: list[bool] = []

    def run() -> None:
        with stop_signals() as request:
            found.append(bool(request))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_an_agent_keeps_what_it_has_learned_when_a_signal_stops_it(number, error) -> None:
    agent = APO(Drift, num_workers=0, **TINY)

    def on_log(progress: Any) -> None:
        if progress.step == 2 * ITERATION:
            send(number)

    with pytest.raises(error):
        agent.learn(50 * ITERATION, on_log=on_log)
    assert 2 * ITERATION <= agent.steps_ < 50 * ITERATION
    agent.learn(ITERATION)


@pytest.mark.slow
def test_a_second_interrupt_ends_the_program_at_once(tmp_path, gate) -> None:
    """Also while an environment in the same process does not return."""
    run = tmp_path / "run"
    command = ["train", "apo", "--env", "tiny_envs:GatedDrift-v0", *TINY_FLAGS, "--out", str(run)]
    process = launch([*command, "--workers", "0", "--no-eval"], **{GATE: str(gate)})
    metrics = run / "metrics.csv"
    wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") >= 3)
    process.send_signal(signal.SIGINT)
    time.sleep(1.0)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert (
        errors == f"longrun: interrupted; longrun train --resume --out {run} --trust resumes it\n"
    )
