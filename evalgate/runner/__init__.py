"""Run trials and score them."""
