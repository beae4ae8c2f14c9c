"""Registers compilegate's plugin for every session in the checkout."""

pytest_plugins = ["compilegate.plugin"]
