"""Reports on a session or a stored run."""
