"""Which other reports of a triage name a submodule of the same model, where one names none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from compilegate.triage.findings import Findings
from compilegate.triage.search.suspect import Suspect

#: A culprit: the folder of its report, the case that stands for it, and what was found.
Reported = tuple[Path, Suspect, Findings]


def naming(own: Reported, others: Iterable[Reported]) -> Iterator[str]:
    """Yield a sentence for each report that names a smaller submodule than one does.

    Another aspect of a model may show alone what this one does not: a submodule may return right
    numbers and leave a wrong buffer, and only the whole model reads that again.

    Args:
        own: The culprit whose report may name none.
        others: All culprits of the triage.
    """
    folder, suspect, findings = own
    place = findings.place
    if not place.tried:
        return
    above = f"{place.path}." if place.path else ""
    for at, other, found in others:
        is_other = at != folder and other.case.model == suspect.case.model
        if is_other and found.place.path.startswith(above) and found.place.path != place.path:
            report = Path(os.path.relpath(at / "report.md", folder)).as_posix()
            shown = f"`{report}`, on another failure of this model ({other.verdict.aspect})"
            yield f"{shown}, names `{found.place.path}` (`{found.place.kind}`)."
