"""Results of runs and sweeps: read, compared with statistics, shown as tables, plots, a report."""

from longrun.results.comparison import Comparison, compare
from longrun.results.data_frames import Results
from longrun.results.read import Setting, read_metrics, read_results

__all__ = ["Comparison", "Results", "Setting", "compare", "read_metrics", "read_results"]
