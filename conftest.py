"""Registers the plugins of compilegate for every session in the checkout."""

pytest_plugins = ["compilegate.entry", "compilegate.plugin"]
