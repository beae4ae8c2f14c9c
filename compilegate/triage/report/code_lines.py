"""The text of a line of the user's code, which a report quotes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from compilegate.culprits.evidence import Evidence


def text_of(evidence: Evidence, folders: Iterable[Path]) -> str:
    """Return the line of code that shows a culprit, without its indentation; empty if unknown.

    Args:
        evidence: What names the line. That of a guard has its text.
        folders: Where its file may be: the root of the project, folders of the zoo.
    """
    source = evidence.source
    if evidence.code.startswith(f"{source}: "):
        return evidence.code.removeprefix(f"{source}: ").strip()
    file, _, number = source.rpartition(":")
    if not file or not number.isdigit():
        return ""
    found = next((path for folder in folders if (path := folder / file).is_file()), None)
    if found is None:
        return ""
    lines = found.read_text(encoding="utf-8", errors="replace").splitlines()
    return "".join(lines[int(number) - 1 : int(number)]).strip()
