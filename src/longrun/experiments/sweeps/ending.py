"""What a sweep says when it is over: results, failures, the best of a search."""

from __future__ import annotations

from longrun.experiments.results import read_results
from longrun.experiments.sweeps.drive import Outcome
from longrun.experiments.sweeps.folder import SweepFolder
from longrun.experiments.sweeps.grids import written
from longrun.experiments.sweeps.search import OptunaSearch
from longrun.experiments.tables import print_final


def show_ending(folder: SweepFolder, outcome: Outcome, search: OptunaSearch | None) -> None:
    if any((folder.folder(run) / "evaluations.csv").exists() for run in outcome.finished):
        print_final(read_results([folder.path]))
    for name, options, score in search.best() if search else []:
        flags = " ".join(f"--{n.replace('_', '-')} {written(v)}" for n, v in options.items())
        print(f"best for {name}: {score:.4g} with {flags}; train it with seeds of its own")
    print(f"{len(outcome.finished)} of {len(folder.runs)} runs are finished in {folder.path}")
    for failure in outcome.failures:
        first = failure.error.strip().splitlines()[0]
        print(f"failed after {failure.attempts} attempts: {failure.run}: {first}")
    if outcome.failures:
        print(f"longrun sweep --resume --out {folder.path} tries them again")
