"""The module that is observed: building it, calling it, its state, its float64 reference."""
