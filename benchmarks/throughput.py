"""Training throughput in control steps per second: longrun, Stable-Baselines3, sbx, the simulator.

The machine drifts within minutes, so every measurement is a process of its own, a round measures
all contestants one after another, and ratios are formed inside a round; the tables show medians
over the rounds. The limit ("raw") is the simulator alone: open-loop mujoco.rollout, two threads.
Everyone trains with 10 environments x 200 steps, minibatches of 250, 10 epochs, 64x64 tanh
networks. Stable-Baselines3 and sbx are measured in one process and with subprocesses, with one
thread and with two; the ratio is to the variant with the best median. The peers come with the extra
`bench`, here or in an interpreter of their own (on Linux `pip install torch==2.13.0` from a CPU
index first, or several GB of CUDA come along):

    pip install -e ".[bench]"
    python benchmarks/throughput.py --peers-python PEERS/bin/python --out
    python benchmarks/throughput.py --only cheetah memory --rounds 5
    python benchmarks/throughput.py --quick                          # does it all run? no figures
"""

import argparse
import csv
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from contestants import CONTESTANTS, ITERATION, PEER_STEPS, STEPS

CHEETAH, ANT, HUMANOID = "HalfCheetah-v5", "Ant-v5", "Humanoid-v5"
Row = dict[str, Any]


class Goal(NamedTuple):
    """A figure of each round: a column of `ours`, over that of `theirs` where there is one."""

    case: str
    title: str
    ours: str
    theirs: str | None
    env: str = CHEETAH
    column: str = "steps_per_second"
    target: float | None = None
    aim: float | None = None

    def value(self, rows: list[Row], rival: str | None) -> float | None:
        """The figure from the rows of one round and case; None where a measurement is missing."""
        mine = [row for row in rows if row["env"] == self.env and row.get(self.column)]
        found = {row["contestant"]: float(row[self.column]) for row in mine}
        ours, theirs = found.get(self.ours), found.get(rival) if rival else 1.0
        return ours / theirs if ours and theirs else None

    def values(self, rows: list[Row]) -> tuple[str | None, list[float]]:
        """The rival in the fastest of its variants, and the figure of each round that has it."""
        mine = [row for row in rows if row["case"] == self.case]
        rival = fastest(mine, self.theirs)
        rounds = dict.fromkeys(row["round"] for row in mine)
        each = [self.value([r for r in mine if r["round"] == k], rival) for k in rounds]
        return rival, [value for value in each if value is not None]

    def verdict(self, value: float) -> str:
        """Where the figure stands: rates ought to be high, megabytes and seconds low."""
        sign = 1 if self.column == "steps_per_second" else -1
        for level, words in ((self.aim, "aim reached"), (self.target, "target met")):
            if level is not None and sign * value >= sign * level:
                return words
        return "no target" if self.target is None else "target missed"


PEERS = tuple(name for name in CONTESTANTS if name.startswith("sb"))

# What a round measures, in this order; a raw measurement stands next to each of ours.
PLANS: dict[str, list[tuple[str, str]]] = {
    "cheetah": [(name, CHEETAH) for name in ("longrun", "raw", *PEERS)],
    "limit": [(name, env) for env in (ANT, HUMANOID) for name in ("longrun", "raw")],
    "replicas": [("replicas", CHEETAH), ("raw", CHEETAH)],
    "memory": [("longrun", CHEETAH)],
    "startup": [("startup", CHEETAH)],
}
GOALS = (
    Goal("cheetah", "times sb3", "longrun", "sb3", target=4.5, aim=7),
    Goal("cheetah", "times sbx", "longrun", "sbx", target=4.5, aim=7),
    Goal("cheetah", "share of raw", "longrun", "raw"),
    Goal("limit", "share of raw, Ant", "longrun", "raw", ANT, target=0.5, aim=0.75),
    Goal("limit", "share of raw, Humanoid", "longrun", "raw", HUMANOID, target=0.5, aim=0.75),
    Goal("replicas", "share of raw, four replicas", "replicas", "raw", target=0.5, aim=0.65),
    Goal("memory", "peak memory, MB", "longrun", None, column="memory_mb", target=1500),
    Goal("startup", "seconds to first iteration", "startup", None, column="seconds", target=5),
)


def measure(name: str, env: str, options: argparse.Namespace) -> Row:
    """Run a contestant in a process of its own and read the JSON line it prints."""
    steps = 60_000 if env in (ANT, HUMANOID) else STEPS.get(name, PEER_STEPS)
    python = options.peers_python if name in PEERS else sys.executable
    script = str(Path(__file__).absolute().with_name("contestants.py"))
    command = [python, "-W", "ignore", script, name, "--env", env]
    command += ["--steps", str(2 * ITERATION if options.quick else steps)]
    environment = {"JAX_PLATFORMS": "cpu", **os.environ}
    with tempfile.TemporaryDirectory() as folder:  # MuJoCo logs into the working directory
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["no result"])[-1]}
    return dict(json.loads(lines[-1]))


def run_rounds(options: argparse.Namespace, say: Callable[[str], None]) -> list[Row]:
    """All measurements, round after round; one that fails is reported and carries its error."""
    rows: list[Row] = []
    for number in range(1, options.rounds + 1):
        for case in options.only:
            for name, env in PLANS[case]:
                row = {"case": case, "contestant": name, "env": env, "round": number}
                rows.append(row | measure(name, env, options))
                told = rows[-1].get("error") or figures(rows[-1:])
                say(f"round {number}, {case}: {name} {env}: {told}")
    return rows


def fastest(rows: list[Row], name: str | None) -> str | None:
    """The variant of a contestant, such as "sb3, one process, 1 thread", with the best median."""
    rates: dict[str, list[float]] = {}
    for row in rows:
        if name and row["contestant"].split(",")[0] == name and row.get("steps_per_second"):
            rates.setdefault(row["contestant"], []).append(float(row["steps_per_second"]))
    return max(rates, key=lambda variant: median(rates[variant]), default=name)


def figures(rows: list[Row]) -> str:
    """The medians of each column that has numbers, in words."""
    words = []
    for column, unit in (("steps_per_second", "steps/s"), ("seconds", "s"), ("memory_mb", "MB")):
        if numbers := [row[column] for row in rows if column in row]:
            words.append(f"{median(numbers):,.{1 if unit == 's' else 0}f} {unit}")
    return ", ".join(words) or "failed"


def tables(rows: list[Row], rounds: int) -> list[Any]:
    """Two rich tables: the medians of each contestant, and the goals from ratios within rounds."""
    from rich.table import Table

    medians = Table("case", "contestant", "task", "median", title=f"Medians of {rounds} round(s)")
    goals = Table("case", "figure", "median", "range", "target", "aim", "verdict")
    goals.title = "Goals, from ratios within each round"
    for case, name, env in dict.fromkeys((r["case"], r["contestant"], r["env"]) for r in rows):
        group = [r for r in rows if (r["case"], r["contestant"], r["env"]) == (case, name, env)]
        medians.add_row(case, name, env, figures(group))
    for goal in GOALS:
        levels = ["-" if level is None else f"{level:g}" for level in (goal.target, goal.aim)]
        if values := goal.values(rows)[1]:
            middle, span = median(values), f"{min(values):.2f} to {max(values):.2f}"
            cells = [f"{middle:.2f}", span, *levels, goal.verdict(middle)]
            goals.add_row(goal.case, goal.title, *cells)
        elif goal.case in {row["case"] for row in rows}:
            goals.add_row(goal.case, goal.title, "-", "-", *levels, "not measured")
    return [medians, goals]


def write_results(rows: list[Row], folder: Path) -> None:
    """throughput.csv, and beside it throughput.json with what made the figures."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = ["case", "contestant", "env", "round", "steps_per_second", "seconds", "memory_mb"]
    with open(folder / "throughput.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    models = [line.split(":")[1].strip() for line in text.splitlines() if "model name" in line]
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", *sys.argv]),
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {row["contestant"]: row["versions"] for row in rows if "versions" in row},
        "errors": [row for row in rows if "error" in row],
    }
    (folder / "throughput.json").write_text(json.dumps(about, indent=2) + "\n")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; see --help."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", nargs="+", choices=PLANS, default=list(PLANS), help="the cases to measure")
    add("--rounds", type=int, help="how often to measure each (default 3; 1 with --quick)")
    add("--quick", action="store_true", help="few steps: shows that it runs, measures nothing")
    add("--peers-python", default=sys.executable, help="the interpreter that has the peers")
    results = Path(__file__).with_name("results")
    add("--out", type=Path, nargs="?", const=results, help="write CSV and JSON (to results/ here)")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (1 if options.quick else 3)
    found = shutil.which(options.peers_python) or parser.error("--peers-python: no such program")
    options.peers_python = os.path.abspath(found)  # not resolved: a venv is known by its link
    return options


def main() -> int:
    """Measure, show, write; the exit status is 1 when a measurement failed."""
    options = parse()
    from rich.console import Console

    console = Console()
    rows = run_rounds(options, partial(console.print, markup=False, soft_wrap=True))
    console.print(*tables(rows, options.rounds), sep="\n")
    if options.quick:
        console.print("A smoke run: it shows that everything runs, its figures mean nothing.")
    if options.out:
        write_results(rows, options.out)
    return int(any("error" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
