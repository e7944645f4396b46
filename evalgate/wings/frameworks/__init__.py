"""Agents of other frameworks than ADK."""
