"""Thresholds and tolerances measured on healthy runs."""
