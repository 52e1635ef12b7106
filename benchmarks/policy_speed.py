"""Time of a policy with NumPy alone: to start a program that uses it, and for one action.

python benchmarks/policy_speed.py      # Swimmer's sizes, 64 x 64, standardised observations

CPU time does not depend on what else the machine does, or little; wall time does.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import time
import longrun
policy = longrun.load_policy({path!r})
action, _ = policy.predict([0.1] * 8)
started = time.process_time()
calls = 20_000
for _ in range(calls):
    policy.predict([0.1] * 8)
each = (time.process_time() - started) / calls
print(started, each)
"""
REPETITIONS = 5


def main() -> None:
    from longrun import APO

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "policy")
        APO("Swimmer-v5", preset="paper", normalize_observations=True).save(path)
        command = [sys.executable, "-c", PROGRAM.format(path=path)]
        found = [
            [float(text) for text in subprocess.check_output(command, text=True).split()]
            for _ in range(REPETITIONS)
        ]
    starts, actions = zip(*found, strict=True)
    print(f"start to the first action: {min(starts):.3f} to {max(starts):.3f} s of CPU time")
    print(f"an action: {1e6 * min(actions):.1f} to {1e6 * max(actions):.1f} microseconds")


if __name__ == "__main__":
    main()
