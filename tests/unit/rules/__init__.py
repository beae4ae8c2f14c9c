"""Tests of the suites' rules: what each aspect makes of an observation."""
