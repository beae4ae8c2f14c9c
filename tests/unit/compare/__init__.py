"""Tests of comparing: every planted difference is found and named; a healthy twin shows none."""
