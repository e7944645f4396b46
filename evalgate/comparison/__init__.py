"""Statistics and verdict: numbers in, verdict out."""
