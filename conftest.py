"""Names the plugins, nothing else."""

pytest_plugins = ["fixtures.plugin"]
