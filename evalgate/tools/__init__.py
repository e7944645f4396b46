"""Simulated tools: mock rules, cassettes of recorded calls, and which of them answers a call."""
