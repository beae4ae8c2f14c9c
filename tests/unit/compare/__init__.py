"""Tests of comparisons: every planted difference is found; correct code shows none."""
