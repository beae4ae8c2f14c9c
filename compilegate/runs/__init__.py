"""Run files: reading, writing, merging."""
