"""What is kept of a run: its journal, results.json, the parts of a plan, and the history of the
base branch."""
