"""One self-contained HTML page of a run or a sweep: `write_report(folder, out)` in `page`."""
