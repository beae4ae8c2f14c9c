"""What is out of bounds in a single tensor."""

from compilegate.judging.sentences import sentence
from compilegate.judging.tolerances import beyond


def exceeds(error, pooled_noise, widening=1.0, *, half=False, on_cpu=False):
    """What is out of bounds, as a sentence; empty if nothing is."""
    found = beyond(error, pooled_noise, widening, half=half, on_cpu=on_cpu)
    return sentence(error, found[0]) if found else ""
