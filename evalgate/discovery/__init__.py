"""What is in the repository: evaluation files, criteria, agents, and what looks wrong with them."""
