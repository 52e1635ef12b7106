"""What costs and limits take: the time of training HalfCheetah with two costs over that without.

    python benchmarks/limits_speed.py               # about three minutes on two cores

The machine drifts within minutes: every round trains all variants one after another in agents that
are compiled already, ratios are formed inside a round, and the medians over rounds are shown.
Writes benchmarks/results/limits-speed.csv.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

from csv_rows import write_rows

from longrun import APO

OUT = Path(__file__).parent / "results" / "limits-speed.csv"
SPEED = {"cost": 0.025}
VARIANTS = {
    "no costs": ("HalfCheetah-v5", {}),
    "two costs recorded": ("HalfCheetah-v5", {"costs": ["action_energy", "out_of_bounds"]}),
    "two costs limited": (
        "HalfCheetah-v5",
        {"limits": {"action_energy": 1.0, "out_of_bounds": 0.1}},
    ),
    "speed and energy limited": (
        "HalfCheetahVelocity-v5",
        {"limits": SPEED | {"action_energy": 1.0}},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--iterations", type=int, default=60)  # so that the start hardly counts
    given = parser.parse_args()
    agents = {
        name: APO(env, preset="tuned", seed=0, **options)
        for name, (env, options) in VARIANTS.items()
    }
    steps = given.iterations * next(iter(agents.values())).config.steps_per_iteration
    rows = []
    for number in range(given.rounds + 1):
        seconds = {}
        for name, agent in agents.items():
            begin = time.perf_counter()
            agent.learn(steps)
            seconds[name] = (time.perf_counter() - begin) / given.iterations
            agent.close()  # the next variant has the cores for itself
        if number:  # the first round compiles
            rows += [{"round": number, "variant": n, "seconds": t} for n, t in seconds.items()]
    print(
        f"seconds an iteration of 2000 steps, and over 'no costs'; {given.rounds} rounds, medians"
    )
    for name in VARIANTS:
        own, plain = ([r["seconds"] for r in rows if r["variant"] == v] for v in (name, "no costs"))
        ratio = median(a / b for a, b in zip(own, plain, strict=True))
        print(f"  {name:<26}{median(own):.3f}   {ratio:.3f}")
    write_rows(OUT, rows)


if __name__ == "__main__":
    main()
