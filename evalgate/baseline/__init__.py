"""The base: which commit, its checkout, its rules."""
