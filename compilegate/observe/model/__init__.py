"""The observed module: building it, calling it, reading its state, running it in float64."""
