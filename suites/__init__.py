"""What is asserted: one module an aspect, its rule and the test that applies it."""
