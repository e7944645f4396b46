"""Statistics and verdict: pure functions from graded trials to a verdict."""
