"""Changes weights that hide a model's computation."""
