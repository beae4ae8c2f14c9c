"""What is shown of a session or a stored run."""
