"""Many runs: sweeps, statistics, figures, reports, and the paper."""
