"""Time, memory and energy of a call."""
