"""The subcommands of ``compilegate``."""
