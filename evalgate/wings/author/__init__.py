"""Evaluation files made from conversations and by a model."""
