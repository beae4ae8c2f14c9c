"""The tests of compilegate itself."""
