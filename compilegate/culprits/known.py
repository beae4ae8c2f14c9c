"""Known culprits: a team's ``known.toml``, which names what fails and where that is reported.

::

    [[known]]
    issue = "https://github.com/pytorch/pytorch/issues/123456"
    aspect = "forward"               # optional, as are the next two
    cases = "resnet*-cuda-*"         # a glob on ids, or a list of globs
    match = "gradient .*running"     # a regular expression that a line of the failure matches
    workaround = "torch._inductor.config.epilogue_fusion = False"
    report = "1-resnet18-forward/report.md"    # from the folder of the file

An entry changes no verdict. It names the culprit, and joins the failures that it matches. One with
an aspect names no case that ended early, which fails as a whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from compilegate.culprits.evidence import has_stopped_failing
from compilegate.judging.aspects import ASPECTS
from compilegate.judging.budgets import BudgetError
from compilegate.records.case import UnknownNameError
from compilegate.records.verdict import Verdict

#: What stands between an issue and its workaround.
WORKAROUND = "; workaround: "


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of the file.

    Attributes:
        issue: Where it is reported: an address, or the name of a ticket.
        aspect: The aspect that fails; any by default.
        cases: A glob on the ids of the cases, or several.
        match: A regular expression that the summary or a detail of the failure matches.
        workaround: What the team does until it is fixed.
        report: The report of a triage, from the folder of the file; once read, its whole path.
        where: File and line of the entry.
    """

    issue: str
    aspect: str = ""
    cases: str | list[str] = "*"
    match: str = ""
    workaround: str = ""
    report: str = ""
    where: str = ""

    def concerns(self, verdict: Verdict) -> bool:
        """Whether the entry is about this aspect of this case, however it was judged."""
        is_of_aspect = self.aspect in ("", verdict.aspect)
        globs = [self.cases] if isinstance(self.cases, str) else self.cases
        return is_of_aspect and any(fnmatchcase(verdict.case, glob) for glob in globs)

    def names(self, verdict: Verdict, lines: Sequence[str] = ()) -> bool:
        """Whether the entry names this failure, which an expected failure that passes is none.

        Args:
            verdict: The verdict that failed.
            lines: What it shows of one of its causes, where it has several.
        """
        found = lines or (verdict.summary, *verdict.details)
        is_failure = self.concerns(verdict) and not has_stopped_failing(verdict)
        return is_failure and any(re.search(self.match, line) for line in found)

    @property
    def title(self) -> str:
        """The issue, and what helps until it is fixed."""
        return f"{self.issue}{WORKAROUND}{self.workaround}" if self.workaround else self.issue

    def linked_from(self, folder: Path) -> Known:
        """Return the entry with the path of its report from a folder."""
        report = os.path.relpath(self.report, folder) if self.report else ""
        return msgspec.structs.replace(self, report=report)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    known: list[Known] = []


def read(files: Iterable[str | Path]) -> list[Known]:
    """Read files of known culprits.

    Raises:
        BudgetError: A file is missing or wrong; the text names it, and the line where that is
            known.
    """
    return [entry for file in files for entry in _entries(Path(file))]


def _entries(file: Path) -> list[Known]:
    try:
        text = file.read_text(encoding="utf-8")
        found = msgspec.toml.decode(text, type=_File).known
    except OSError as error:
        raise BudgetError(f"cannot read {file}: {error.strerror}; check --known") from error
    except (ValueError, msgspec.MsgspecError) as error:
        fields = ", ".join(name for name in Known.__struct_fields__ if name != "where")
        raise BudgetError(
            f"{file}: {error}; an entry begins with [[known]] and has {fields}"
        ) from error
    heads = [text.count("\n", 0, at.start()) for at in re.finditer(r"\[\[ *known *\]\]", text)]
    lines = heads if len(heads) == len(found) else [0] * len(found)
    return [
        _checked(
            msgspec.structs.replace(
                entry,
                where=f"{file}:{line + 1}",
                report=str(file.resolve().parent / entry.report) if entry.report else "",
            )
        )
        for entry, line in zip(found, lines, strict=True)
    ]


def _checked(entry: Known) -> Known:
    if entry.aspect and entry.aspect not in ASPECTS:
        raise BudgetError(f"{entry.where}: {UnknownNameError('aspect', entry.aspect, ASPECTS)}")
    try:
        re.compile(entry.match)
    except re.error as error:
        raise BudgetError(
            f"{entry.where}: match = {entry.match!r}: not a regular expression: {error}"
        ) from error
    return entry


def unmatched(entries: Sequence[Known], verdicts: Iterable[Verdict]) -> list[str]:
    """Return a line for each entry that names no failure, although its cases were judged.

    Args:
        entries: The entries.
        verdicts: All verdicts of the run.
    """
    judged = [verdict for verdict in verdicts if verdict.outcome != "skipped"]
    lines = []
    for entry in entries:
        concerned = [verdict for verdict in judged if entry.concerns(verdict)]
        failed = [v for v in concerned if v.outcome in ("failed", "expected_failure")]
        if concerned and not any(map(entry.names, failed)):
            cases = len({verdict.case for verdict in concerned})
            lines.append(
                f"{entry.where}: names no failure of {cases} case{'s' * (cases != 1)} that it is "
                f"about: check whether {entry.issue} is fixed, and remove the entry"
                + (" and the workaround" if entry.workaround else "")
            )
    return lines
