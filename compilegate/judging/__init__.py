"""Turns an observation and a budget into verdicts."""
