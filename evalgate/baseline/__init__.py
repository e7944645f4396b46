"""Where base results come from: git, a checkout of the base commit, and stores of earlier results."""
