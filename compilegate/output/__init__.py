"""Text that leaves the process: one function cleans each line, and streams apply it."""
