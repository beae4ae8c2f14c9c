"""The child's part of triage: it takes models and graphs to pieces."""
