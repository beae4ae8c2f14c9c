"""Names the plugins, nothing else."""

pytest_plugins = ["compilegate.plugin"]
