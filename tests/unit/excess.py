"""What is out of bounds in a single tensor."""

from suites.bounds import beyond
from suites.numerics import sentence


def exceeds(error, pooled_noise, widening=1.0, *, half=False):
    """What is out of bounds, as a sentence; empty if nothing is."""
    found = beyond(error, pooled_noise, widening, half=half)
    return sentence(error, found[0]) if found else ""
