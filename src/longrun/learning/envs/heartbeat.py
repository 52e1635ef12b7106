"""What a worker is doing, written to shared memory at every environment step.

The parent reads it without asking the worker, which may hang in C code or be stopped.
"""

from __future__ import annotations

from longrun.learning.envs.spaces import Array
from longrun.learning.envs.worker_part import Part

CELLS = 8
"""int64 numbers of each worker: a cache line, so that workers do not slow each other down"""
ACTIVITY, REPLICA, ITERATION, FIRST, COUNT, TURN, RESETS, BEGUN = range(CELLS)
"""The cells. COUNT environments from FIRST on take turns, and TURN counts these from 0. RESETS is
odd during a reset. BEGUN counts activities, so that a row differs from all earlier ones."""
STARTING, MAKING, RESETTING, REPEATING, ROLLOUT, EVALUATION, IDLE, RESTORING = range(8)
"""Activities."""


class Heartbeat:
    """The worker's side of its row. The step loops write `row[TURN]` themselves, for speed."""

    def __init__(self, row: Array) -> None:
        self.row = memoryview(row)  # type: ignore[arg-type]  # of which NumPy's types do not tell

    def begin(self, activity: int, part: Part, iteration: int = 0) -> None:
        """Begin an activity: the environments of `part` take turns, from turn 0 on."""
        row = self.row
        row[TURN] = row[RESETS] = 0
        row[REPLICA], row[ITERATION] = part.replica, iteration
        row[FIRST], row[COUNT] = part.first, part.last - part.first
        row[ACTIVITY] = activity
        row[BEGUN] += 1

    def rest(self) -> None:
        """Be idle until the next request."""
        self.row[ACTIVITY] = IDLE
        self.row[BEGUN] += 1

    def reset(self) -> None:
        """Count the beginning or the end of an environment's reset; call it at both."""
        self.row[RESETS] += 1


def place(row: Array) -> str:
    """Environment and step of a worker, in words."""
    activity, replica, iteration, first, count, turn, resets, _ = row.tolist()
    if activity == STARTING:
        return "while it was starting"
    if activity == IDLE:
        return "before its next request"
    step, env = divmod(turn, max(count, 1))
    name = f"environment {first + env} of replica {replica}"
    if activity == MAKING:
        return f"making {name}"
    if activity == RESETTING:
        return f"{name} in its reset"
    if activity == RESTORING:
        return f"{name} in its set_state"
    if activity == REPEATING:
        return f"{name} at repeated step {step}"
    evaluation = "the evaluation after " if activity == EVALUATION else ""
    where = "in a reset at" if resets % 2 else "at"
    return f"{name} {where} step {step} of {evaluation}iteration {iteration}"
