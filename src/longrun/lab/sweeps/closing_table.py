"""What a sweep prints when it has ended: results, failures, the best options of a search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longrun.lab.results.comparison_table import print_final
from longrun.lab.results.read import read_results
from longrun.lab.sweeps.run_sweep import train_sweep
from longrun.lab.sweeps.scheduler import Outcome
from longrun.lab.sweeps.sweep_folder import SweepFolder


def run_sweep(folder: SweepFolder, **running: Any) -> int:
    """Train all unfinished runs and print tables. The exit status is 1 if a run failed."""
    outcome, search = train_sweep(folder, **running)
    finished = finished_folders(folder, outcome)
    if evaluated := [path for path in finished if (path / "evaluations.csv").exists()]:
        print_final(read_results(evaluated))
    for name, options, score in search.best() if search else []:
        flags = " ".join(filter(None, (flag(option, value) for option, value in options.items())))
        flags = flags or "the preset as it is"
        print(f"best for {name}: {score:.4g} with {flags}; train it with other seeds")
    print(f"{len(outcome.finished)} of {len(folder.runs)} runs are finished in {folder.path}")
    for failure in outcome.failures:
        times = "1 attempt" if failure.attempts == 1 else f"{failure.attempts} attempts"
        print(f"failed after {times}: {failure.run}: {failure.error}")
    if outcome.failures:
        print(f"{folder.resume_command()} tries them again")
    return 1 if outcome.failures else 0


def finished_folders(folder: SweepFolder, outcome: Outcome) -> list[Path]:
    """Folders of the finished runs, in the order of the plan and not in that of their ends."""
    return [folder.folder(name) for name in folder.runs if name in outcome.finished]


def flag(option: str, value: Any) -> str:
    """An option as `longrun train` takes it; nothing for an empty list, which is the default.

    Networks without a hidden layer are not the default: `longrun sweep` alone takes them.
    """
    name = option.replace("_", "-")
    if option == "limits":
        return " ".join(f"--limit {cost}={rate}" for cost, rate in dict(value).items())
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    if isinstance(value, list) and not value:
        return "--grid hidden_sizes=none" if option == "hidden_sizes" else ""
    return f"--{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"
