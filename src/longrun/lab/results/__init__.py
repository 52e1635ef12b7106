"""Results of runs and sweeps: read, compared with statistics, shown as tables, plots, a report."""

from longrun.lab.results.comparison import Comparison, compare
from longrun.lab.results.data_frames import Results
from longrun.lab.results.read import Setting, read_metrics, read_results

__all__ = ["Comparison", "Results", "Setting", "compare", "read_metrics", "read_results"]
