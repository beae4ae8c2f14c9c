"""A failure that a team knows and accepts, with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.specifiers import SpecifierSet


@dataclass(frozen=True)
class ExpectedFailure:
    """A known failure: of one aspect, or of all aspects because a stage fails.

    Attributes:
        reason: Why the team accepts it.
        aspect: The aspect that fails.
        stage: The stage that fails, or ``crash`` for a process that dies.
        issue: Link to the bug.
        torch: Versions that have it, as ``>=2.10,<2.12``.
        match: A regular expression. Each line that was found must match this one, or that of
            another entry for the same aspect; other failures still fail.
        strict: Whether passing is a failure, too. False for a failure that comes and goes, as with
            kernels that autotuning chooses.
        where: File and line of the entry.
    """

    reason: str
    aspect: str = ""
    stage: str = ""
    issue: str = ""
    torch: str = ""
    match: str = ""
    strict: bool = True
    where: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.issue})" if self.issue else self.reason

    def holds_for(self, version: str) -> bool:
        """Whether a torch version is in the range."""
        return SpecifierSet(self.torch).contains(version.partition("+")[0], prereleases=True)
