"""The suites: one module per aspect, with its rule and the test that applies it."""
