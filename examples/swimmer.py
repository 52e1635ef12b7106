"""APO and discounted PPO side by side on Swimmer-v5: three seeds each, about two minutes.

The long-run average criterion finds the strokes that pay off later; with the usual discount of 0.99
PPO does not see that far.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from longrun.cli import main

STEPS = "400000"
COMMON = f"--env Swimmer-v5 --steps {STEPS} --seeds 3 --gae-lambda 0.99 --out"


def run() -> int:
    folder = Path("runs") / time.strftime("swimmer-%Y%m%d-%H%M%S")
    apo, ppo = folder / "apo", folder / "ppo"
    for command in (
        f"train apo --value-constraint 0.1 {COMMON} {apo}",
        f"train ppo --discount 0.99 {COMMON} {ppo}",
        f"plot {apo} {ppo} --out {folder / 'curves.png'}",
    ):
        print(f"longrun {command}", flush=True)
        if status := main(command.split()):
            return status
    return 0


if __name__ == "__main__":
    sys.exit(run())
