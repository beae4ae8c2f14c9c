"""What is kept of a run and shown of it."""
