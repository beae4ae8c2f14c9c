"""Variables that other modules of Python write to."""

COUNT = 0
SEEN: list[object] = []
UNUSED = 0


def count() -> None:
    """Count in this module."""
    global COUNT  # noqa: PLW0603
    COUNT += 1
