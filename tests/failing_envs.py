"""An environment that does something terrible in one step of one episode, and what it can do.

Worker processes import this module, so it must import neither JAX nor `longrun`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium

from tiny_envs import Drift


class Failing(Drift):
    """Calls `fault(self)` in step `at`, or in the reset if that is 0, where the seed is `victim`.

    None stands for every seed. A result that is not None replaces entries of what `step` returns,
    by their index. A file "reached" beside the folder `notes` tells that the step has come.
    """

    def __init__(
        self,
        fault: Callable[[Failing], dict[int, Any] | None],
        victim: int | None = None,
        at: int = 5,
        notes: Path | str | None = None,
        **others: Any,
    ) -> None:
        super().__init__(notes=notes, **others)
        self.fault, self.victim, self.at, self.notes = fault, victim, at, notes
        self.is_victim = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        result = super().reset(seed=seed)
        self.is_victim = self.victim in (None, seed)
        if self.is_victim and self.at == 0:
            self.fault(self)
        return result

    def step(self, action: Any) -> Any:
        facts = list(super().step(action))
        if self.is_victim and self.time == self.at:
            if self.notes is not None:
                Path(self.notes).with_name("reached").touch()
            for index, value in (self.fault(self) or {}).items():
                facts[index] = value
        return tuple(facts)


def sleep(env: Failing) -> None:
    time.sleep(600)


def hold_the_lock(env: Failing) -> None:
    """Hang in C with Python's global lock: no other thread of the process runs."""
    ctypes.PyDLL(None).sleep(600)


def stop(env: Failing) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def fork_and_die(env: Failing) -> None:
    """The child keeps all files open, also the connection to the parent."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    if env.notes is not None:
        Path(env.notes, str(child)).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def close_files_and_sleep(env: Failing) -> None:
    os.closerange(3, 256)
    time.sleep(600)


def close_files(env: Failing) -> None:
    os.closerange(3, 256)


def write_to_files(env: Failing) -> None:
    """Something that is no message of a worker, also to the connection with the parent."""
    for fd in range(3, 256):
        with suppress(OSError):
            os.write(fd, b"\x00\x00\x00\x01x")


def end_by_a_nameless_signal(env: Failing) -> None:
    os.kill(os.getpid(), signal.SIGRTMIN + 3)


def exit_with_0(env: Failing) -> None:
    sys.exit(0)


def exit_generator(env: Failing) -> None:
    raise GeneratorExit


class Speechless(ArithmeticError):
    """Neither text nor representation."""

    def __str__(self) -> str:
        raise OSError("no text")

    __repr__ = __str__


def raise_speechless(env: Failing) -> None:
    raise Speechless


def raise_key(env: Failing) -> None:
    {}["pump"]


def raise_lines(env: Failing) -> None:
    raise ArithmeticError("the motor jammed\n\n  at 12 V\n")


def returned(index: int, value: Any) -> Callable[[Failing], dict[int, Any]]:
    """A fault: this entry of what `step` returns is another value."""
    return lambda env: {index: value}


FAULTS = {
    "Exit": exit_with_0,
    "Generator": exit_generator,
    "Key": raise_key,
    "Sleep": sleep,
}
for name, fault in FAULTS.items():
    gymnasium.register(f"{name}Drift-v0", "failing_envs:Failing", kwargs={"fault": fault})


class Hanging(Drift):
    """Hangs in its fifth step: in Python with seed 0 of the run, then as the next two do."""

    def __init__(self) -> None:
        super().__init__(limit=23, wall=1.5)
        self.fault: Callable[[Any], None] | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        from longrun.learning.envs import seeding

        self.fault = None
        for number, fault in enumerate((sleep, hold_the_lock, stop)):
            if seed == seeding.episode_seed(number, seeding.EPISODE, 0, 0):
                self.fault = fault
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        if self.fault is not None and self.time == 4:
            self.fault(self)
        return super().step(action)


gymnasium.register("HangingDrift-v0", "failing_envs:Hanging")
