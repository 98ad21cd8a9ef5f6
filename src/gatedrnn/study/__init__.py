"""The fair comparison: matching, runs, numbers, report."""
