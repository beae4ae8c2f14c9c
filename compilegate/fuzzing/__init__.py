"""Generates small programs, has the observer judge them, and reduces those that fail."""
