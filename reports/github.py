"""What GitHub Actions is told: annotations on standard output, and the step's job summary.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from compilegate.reports.rows import Row

#: GitHub shows this many errors of a step.
ANNOTATIONS = 10
#: Longer messages are cut.
LENGTH = 1000

_IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = _IN_MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})


def error_annotations(rows: Sequence[Row], decision: str = "") -> Iterator[str]:
    """The decision, an error for each row, as many as are shown, and one that counts the rest.

    Args:
        rows: What failed.
        decision: The decision if it is not *safe*; empty if it is, or there is none.
    """
    room = ANNOTATIONS - bool(decision)
    shown = rows if len(rows) <= room else rows[: room - 1]
    if decision:
        yield _error("compilegate", decision)
    for row in shown:
        yield _error(f"compilegate: {row.who}", row.what)
    if len(shown) < len(rows):
        yield _error("compilegate", f"{len(rows) - len(shown)} more: see the job summary")


def _error(title: str, message: str) -> str:
    title, message = title.translate(_IN_PROPERTY), message[:LENGTH].translate(_IN_MESSAGE)
    return f"::error title={title}::{message}"


def append_summary(path: Path, write: Callable[[int], str], limit: int) -> str:
    """Add to a step's job summary, which other commands of the step may have begun.

    Args:
        path: The file that ``$GITHUB_STEP_SUMMARY`` names.
        write: Makes the text, given the bytes that it may have.
        limit: Bytes that the whole file may have.

    Returns:
        Why nothing could be written; empty if it was.
    """
    try:
        taken = path.stat().st_size if path.exists() else 0
        room = limit - taken
        if room < 2**10:
            return f"{path} is full: it has {taken} bytes"
        with path.open("a", encoding="utf-8") as file:
            file.write(write(room))
    except OSError as error:
        return f"cannot write {path}: {error.strerror}"
    return ""
