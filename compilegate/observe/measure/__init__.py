"""Measures the time, the memory and the energy of a call."""
