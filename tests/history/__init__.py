"""Tests that need Apache Otava, which requires a NumPy of its own."""
