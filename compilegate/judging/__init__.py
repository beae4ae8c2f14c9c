"""From an observation and a budget to a verdict."""
