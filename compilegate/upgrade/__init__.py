"""Two environments compared: what changed, what it costs, and the decision."""
