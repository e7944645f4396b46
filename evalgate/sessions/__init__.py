"""Conversations with agents that run as worker processes and speak the line protocol."""
