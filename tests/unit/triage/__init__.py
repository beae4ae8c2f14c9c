"""Tests of culprits and of their triage."""
