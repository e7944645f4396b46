"""Tool calls of agents: recorded, replayed, or answered by mock rules."""
