"""The story of a run: prepare, measure, compare, decide, report."""
