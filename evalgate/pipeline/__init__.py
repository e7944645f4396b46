"""The story: run the trials, grade them, keep what is known, decide."""
