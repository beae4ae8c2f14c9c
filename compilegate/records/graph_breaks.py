"""The graph breaks of a case, each counted once."""

from __future__ import annotations

from collections.abc import Sequence

from compilegate.records.observation import Capture, GraphBreak


def found_in(capture: Capture) -> list[GraphBreak]:
    """Return the breaks, and the frames left to eager for a line that breaks no other frame."""
    left = (frame for frame in capture.fallbacks if not _is_met(frame, capture.breaks))
    return [*capture.breaks, *left]


def distinct(breaks: Sequence[GraphBreak]) -> list[GraphBreak]:
    """Return one break for each reason and line.

    One line may leave several frames to eager: the last is the innermost.
    """
    return [*{(found.reason, found.source): found for found in breaks}.values()]


def _is_met(frame: GraphBreak, breaks: Sequence[GraphBreak]) -> bool:
    """Whether a frame is left to eager for a line that breaks another frame, too.

    Runs of earlier versions name no line, so there the same reason in the same file is the same.
    """
    if frame.broken_at:
        return any((one.reason, one.source) == (frame.reason, frame.source) for one in breaks)
    return any((one.reason, one.file) == (frame.reason, frame.file) for one in breaks)
