"""Evaluations of Customer Engagement Suite: their files, and what can be done with them without running them."""
