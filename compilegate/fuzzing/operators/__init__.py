"""The operators of generated programs: how each is written, and the shape and dtype it returns."""
