"""The contents of a repository: evaluation files, criteria, agents, and their problems."""
