"""Comparison of compiled code with eager and with the reference."""
