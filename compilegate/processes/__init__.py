"""The pytest side of observing: child processes, one at a time or in pairs."""
