"""The title of a report, as an issue of PyTorch has it: the stage, the place and what is wrong."""

from __future__ import annotations

import re
import textwrap

from compilegate.records.observation import Failure, GraphBreak
from compilegate.triage.findings import Findings
from compilegate.triage.suspect import Suspect

#: The longest title, in characters.
_LONGEST = 100
#: The shortest text that is left of what is cut in the middle of a title.
_SHORTEST = 20
#: The call that a line of a verdict names first.
_CALL = re.compile(r"^(?:probing )?call\b[^:]*: ")
#: What a line says of a tensor whose numbers are wrong.
_NUMBERS = re.compile(
    r"(?P<tensor>[a-z]+)\b[^:(]* \((?P<dtype>\w+)\): .*?\b(?:is|are) (?P<error>[\d.e+-]+%?) "
    r".*?\(eager (?P<eager>[\d.e+-]+%?), "
)
#: How PyTorch begins the message that has the exception of a backend.
_OF_BACKEND = re.compile(r"^backend='\w+' raised:\s*")
#: What Dynamo's explanation of a break calls by its name, and what a guard begins with.
_QUOTED = re.compile(r"`([^`]+)`")
_COMPILE_ID = re.compile(r"^\d+/\d+: ")


def title_of(suspect: Suspect, findings: Findings) -> str:
    """Return the title of the issue: at most 100 characters, without the number of a call."""
    stage = f"[{_tag(findings)}] " if findings.stage.backend else ""
    if line := suspect.evidence.source:
        return _fitted(stage, _of_line(suspect), f" at {line}")
    where = findings.operator or findings.place.kind or suspect.case.model
    return _fitted(f"{stage}{where}: ", _of_case(suspect))


def _tag(findings: Findings) -> str:
    """Return the stage, of which a bisection leaves one part."""
    is_told = findings.bisected.get("subsystem") == "decomposition"
    return "decompositions" if is_told else findings.stage.name


def _fitted(before: str, text: str, after: str = "") -> str:
    """Return a title whose middle is cut where the whole is too long."""
    room = max(_LONGEST - len(before) - len(after), _SHORTEST)
    return f"{before}{textwrap.shorten(text, room, placeholder=' …')}{after}"


def _of_line(suspect: Suspect) -> str:
    """Return what is wrong with a line of code."""
    found = suspect.graph_break
    if found is None and not suspect.was_not_compiled:
        return f"recompilation for {_COMPILE_ID.sub('', suspect.evidence.line)}"
    what = "nothing is compiled" if suspect.was_not_compiled else "graph break"
    return f"{what}: {_reason(found) if found else suspect.evidence.line}"


def _reason(found: GraphBreak) -> str:
    """Return the reason of a break, with the name of what is called."""
    called = _QUOTED.search(found.explanation)
    is_said = called is None or "`" in found.reason or called[1] in found.reason
    return found.reason if called is None or is_said else f"{found.reason} `{called[1]}`"


def _of_case(suspect: Suspect) -> str:
    """Return what is wrong with a case, or with an operator in it."""
    if (failure := suspect.observation.failure) is not None:
        return _of_failure(suspect, failure)
    text = _CALL.sub("", suspect.text)
    if found := _NUMBERS.match(text):
        after = " after the call" if found["tensor"] == "input" else ""
        figures = f"error {found['error']}, eager {found['eager']}"
        return f"wrong {found['tensor']}{after} in {found['dtype']} ({figures})"
    is_told = text != suspect.text or suspect.was_not_compiled
    return text if is_told else f"{suspect.verdict.aspect.replace('_', ' ')}: {text}"


def _of_failure(suspect: Suspect, failure: Failure) -> str:
    when = "in the first call" if suspect.is_of_first_call else "in a later call"
    match suspect.observation.status:
        case "crashed":
            return f"{failure.kind} {when}"
        case "timed_out":
            return f"hangs {when}"
    said = _OF_BACKEND.sub("", failure.message)
    return said if said != failure.message else f"{failure.kind}: {said}"
