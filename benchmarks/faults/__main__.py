"""`python benchmarks/faults KIND`: faults made on purpose, counted in results/faults.csv."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.command import main

sys.exit(main())
