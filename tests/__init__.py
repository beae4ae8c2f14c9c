"""Tests of compilegate itself."""
