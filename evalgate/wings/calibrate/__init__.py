"""Judges against human labels: labels, agreement, and what a run may rely on."""
