"""An environment that does something terrible in its fifth step; `--env faulty_env:Faulty-v0`.

Worker processes import this module, so it must import neither JAX nor `longrun`.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

import failing_envs
from failing_envs import returned
from tiny_envs import Drift


def busy(env: Any) -> None:
    while True:
        pass


def crash(env: Any) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def end_quietly(env: Any) -> None:
    os._exit(0)


def recurse(env: Any) -> None:
    recurse(env)


def out_of_memory(env: Any) -> None:
    np.zeros(2**60, np.float64)


def stop_iteration(env: Any) -> None:
    raise StopIteration


def fork_a_child(env: Any) -> None:
    """The child ends only when it is made to."""
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)


def write_much(env: Any) -> None:
    os.write(1, b"x\n" * 100_000)


def warn(env: Any) -> None:
    for number in range(1000):
        warnings.warn(f"warning {number}", stacklevel=2)


def change_folder(env: Any) -> None:
    os.chdir("/")


def ignore_signals(env: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def float_errors(env: Any) -> None:
    np.seterr(all="raise")


FAULTS: dict[str, Callable[[Any], Any]] = {
    **{
        name: getattr(failing_envs, name)
        for name in (
            *("sleep", "hold_the_lock", "stop", "fork_and_die", "close_files", "write_to_files"),
            *("close_files_and_sleep", "end_by_a_nameless_signal", "exit_with_0"),
            *("exit_generator", "raise_speechless", "raise_lines"),
        )
    },
    **{
        f.__name__: f
        for f in (busy, crash, end_quietly, recurse, out_of_memory, stop_iteration, write_much)
    },
    **{f.__name__: f for f in (warn, change_folder, ignore_signals, float_errors, fork_a_child)},
    "reward_str": returned(1, "1.0"),
    "reward_none": returned(1, None),
    "reward_nan": returned(1, math.nan),
    "reward_inf": returned(1, math.inf),
    "reward_huge": returned(1, 1e300),
    "reward_complex": returned(1, 1j),
    "reward_array": returned(1, np.ones(2)),
    "terminated_none": returned(2, None),
    "terminated_str": returned(2, "False"),
    "terminated_array": returned(2, np.zeros(2, bool)),
    "truncated_none": returned(3, None),
    "truncated_half": returned(3, 0.5),
    "info_none": returned(4, None),
    "observation_none": returned(0, None),
    "observation_str": returned(0, "here"),
    "observation_nan": returned(0, np.full(2, np.nan, np.float32)),
    "observation_longer": returned(0, np.zeros(3, np.float32)),
    "observation_shorter": returned(0, np.zeros(1, np.float32)),
    "observation_scalar": returned(0, 1.0),
    "observation_objects": returned(0, np.array([None, "x"], object)),
}
"""What it does in its fifth step, by name."""
RESULTS = {"step_none": None, "step_four": (np.zeros(2, np.float32), 0.0, False, {}), "step_int": 3}
"""What it returns there instead of five values."""
RESETS: dict[str, Any] = {
    "reset_none": None,
    "reset_alone": np.zeros(2, np.float32),
    "reset_longer": (np.zeros(3, np.float32), {}),
    "reset_nan": (np.full(2, np.nan, np.float32), {}),
}
"""What it returns as its third reset."""
PHASES = {
    "reset_sleep": "reset",
    "reset_exit": "reset",
    "close_sleep": "close",
    "close_exit": "close",
}
ALL = [*FAULTS, *RESULTS, *RESETS, *PHASES]


class Faulty(Drift):
    """Does what `fault` names, unless FAULTS_OFF is set. An episode has 7 steps."""

    def __init__(self, fault: str) -> None:
        super().__init__(limit=7)
        self.fault, self.resets = "" if "FAULTS_OFF" in os.environ else fault, 0
        if self.fault == "make_sleep":
            time.sleep(600)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.resets += 1
        result = super().reset(seed=seed)
        if self.resets < 3:
            return result
        self._phase("reset")
        return RESETS.get(self.fault, result)

    def step(self, action: Any) -> Any:
        facts = list(super().step(action))
        if self.time == 5:
            if self.fault in RESULTS:
                return RESULTS[self.fault]
            for index, value in (FAULTS.get(self.fault, _nothing)(self) or {}).items():
                facts[index] = value
        return tuple(facts)

    def close(self) -> None:
        if self.resets:
            self._phase("close")

    def _phase(self, phase: str) -> None:
        if PHASES.get(self.fault) == phase:
            time.sleep(600) if self.fault.endswith("sleep") else sys.exit(0)


def _nothing(env: Any) -> None:
    pass


gymnasium.register("Faulty-v0", "faulty_env:Faulty")
