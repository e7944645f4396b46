"""A calibration for a terminal."""
