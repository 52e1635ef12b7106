"""Results of runs and sweeps: read, compared with statistics, shown as tables, plots, a report."""

from longrun.lab.results.comparison import Comparison, compare
from longrun.lab.results.read import Results, read_metrics, read_results
from longrun.lab.results.settings import Setting

__all__ = ["Comparison", "Results", "Setting", "compare", "read_metrics", "read_results"]
