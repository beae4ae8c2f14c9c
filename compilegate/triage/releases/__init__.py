"""Finds the first release of torch that shows a failure, in environments of its own."""
