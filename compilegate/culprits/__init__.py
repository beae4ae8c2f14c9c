"""Culprits: failures of one cause, by their evidence, and those that a team knows."""
