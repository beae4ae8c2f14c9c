"""Compiled against eager, and both against the float64 reference."""
