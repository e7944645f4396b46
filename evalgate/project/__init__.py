"""The repository as we find it: its evaluation files, their criteria and agents, and what is wrong with them."""
