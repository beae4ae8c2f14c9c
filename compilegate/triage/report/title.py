"""The title of a report, as an issue of PyTorch has it: the stage, the place and what is wrong."""

from __future__ import annotations

import re
import textwrap

from compilegate.culprits import stacks
from compilegate.records.observation import Failure, GraphBreak
from compilegate.triage.findings import Findings
from compilegate.triage.report import ownership
from compilegate.triage.search import costs
from compilegate.triage.search.suspect import Suspect, exit_status

#: The longest title, in characters.
_LONGEST = 100
#: The shortest text that is left of what is cut in the middle of a title.
_SHORTEST = 20
#: The call that a line of a verdict names first.
_CALL = re.compile(r"^(?:probing )?call\b[^:]*: ")
#: What a line says of a tensor whose numbers are wrong.
_NUMBERS = re.compile(
    r"(?P<tensor>[a-z]+)\b(?P<path>[^:(]*) \((?P<dtype>\w+)\): .*?\b(?:is|are) "
    r"(?P<error>[\d.e+-]+%?) "
    r".*?\(eager (?P<eager>[\d.e+-]+%?), [^)]*\)"
    r"(?P<unwritten>; compiled code leaves it unchanged)?"
)
#: What a line says of a slice whose numbers are wrong.
_SLICE = re.compile(
    r"(?P<tensor>[a-z]+\b[^:(]*) \((?P<dtype>\w+)\): (?P<what>[\w ]+) of a slice is off by "
    r"(?P<error>\S+) .*?, in (?P<slice>slice \d+ of the \d+ along dimension \d+) "
    r"\(eager (?P<eager>[^,]+),"
)
#: What a line says of something that differs exactly.
_DIFFERENCE = re.compile(
    r"(?P<where>.+?): (?P<what>[\w ]+?) differs?(?: by padding)?: "
    r"eager (?P<eager>.*?), compiled (?P<compiled>.*)"
)
#: What a line says where one side raises.
_RAISES = re.compile(r"eager raises (?P<eager>.*), compiled raises (?P<compiled>.*)")
#: What a line says of the peak of a call, and before that of another size.
_PEAK = re.compile(r"peak (?P<peak>\S+ \w+), .*\((?P<ratio>[\d.,]+)×\), at most (?P<most>[\d.]+)×")
_OF_SIZE = re.compile(r"at ([^,]+), peak (\S+ \w+), eager (\S+ \w+)")
#: State that a call changes: other differences are of what it returns.
_STATE = ("input", "buffer", "parameter", "attribute", "closure", "class", "global", "function")
#: How PyTorch begins the message that has the exception of a backend.
_OF_BACKEND = re.compile(r"^backend='\w+' raised:\s*")
#: What Dynamo's explanation of a break calls by its name: no code, which is an example of its own.
_CALLED = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*(?:\(\))?)\.?`")
_EXAMPLE = re.compile(r"\(e\.g\.[^)]*`[^`]*`[^)]*\)")
#: How a record says that the line of a break raises an exception.
_RAISES_HERE = "this line raises "
#: What a guard begins with.
_COMPILE_ID = re.compile(r"^\d+/\d+: ")


def title_of(suspect: Suspect, findings: Findings) -> str:
    """Return the title of the issue: at most 100 characters, without the number of a call."""
    tag = _tag(findings)
    stage = f"[{tag}] " if tag else ""
    alone = findings.place.text
    if own := findings.guilty:
        before = f"[{ownership.whose(own)} {own.kind}] {own.name}: "
        return _fitted(before, _of_case(suspect, alone))
    if line := suspect.evidence.source:
        return _fitted(stage, _of_line(suspect), f" at {line}")
    if frame := suspect.evidence.frame:
        return _fitted(stage, _of_line(suspect), f" in {frame}")
    kind = findings.place.kind or findings.place.model
    where = findings.named or kind or suspect.case.model
    if findings.pattern and not findings.named:
        where = f"{findings.pattern} in {where}"
    if findings.needs_fusion:
        where = f"fusion of {where}"
    at = f" at {findings.wrong_line}" if findings.wrong_line else ""
    return _fitted(f"{stage}{where}: ", _of_case(suspect, alone), at)


def _tag(findings: Findings) -> str:
    """Return the stage, of which a bisection leaves one part; empty if it is not known."""
    if findings.bisected.get("subsystem") == "decomposition":
        return "decompositions"
    return findings.stage.name if findings.stage.backend else ""


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
    """Return the reason of a break, with the name of what is called, or with an exception."""
    if found.explanation.startswith(_RAISES_HERE):
        return f"{found.reason}: {found.explanation.removeprefix(_RAISES_HERE)}"
    called = _CALLED.search(_EXAMPLE.sub("", found.explanation))
    is_said = called is None or "`" in found.reason or called[1] in found.reason
    return found.reason if called is None or is_said else f"{found.reason} `{called[1]}`"


def _of_case(suspect: Suspect, alone: str) -> str:
    """Return what is wrong with a case, or with an operator in it.

    Args:
        suspect: The case.
        alone: What a submodule shows alone; empty for none.
    """
    if (failure := suspect.observation.failure) is not None:
        return _of_failure(suspect, failure)
    text = _CALL.sub("", suspect.text)
    if said := _of_numbers(text, _CALL.sub("", alone)):
        return said
    if found := _RAISES.match(text):
        eager, compiled = found["eager"], found["compiled"]
        is_missing = compiled == "nothing"
        return f"no error where eager raises {eager}" if is_missing else f"raises {compiled}"
    if found := _DIFFERENCE.match(text):
        is_of_objects = found["what"] == "identity"
        return _of_objects(found) if is_of_objects else _of_difference(found)
    is_told = text != suspect.text or suspect.was_not_compiled
    said = _of_memory(text) if costs.budget(suspect) else ""
    aspect = suspect.verdict.aspect.replace("_", " ")
    return said or (text if is_told else f"{aspect}: {text}")


def _of_numbers(text: str, alone: str) -> str:
    """Return which numbers are wrong, and by how much; empty where none are.

    Args:
        text: What a line says, without the call.
        alone: What a submodule shows alone. It shows what the rest of the model may hide.
    """
    if found := _SLICE.match(text):
        figures = f"{found['what']} off by {found['error']}, eager {found['eager']}"
        return f"wrong {found['slice']} of {found['tensor']} in {found['dtype']} ({figures})"
    if (found := _NUMBERS.match(text)) is None:
        return ""
    found = _NUMBERS.match(alone) or found
    is_state = found["tensor"] in _STATE
    named = f"{found['tensor']}{found['path'] if is_state else ''}"
    after = " after the call" if is_state else ""
    figures = f"error {found['error']}, eager {found['eager']}"
    if found["unwritten"]:
        return f"write to {named} is lost in {found['dtype']} ({figures})"
    return f"wrong {named}{after} in {found['dtype']} ({figures})"


def _of_memory(text: str) -> str:
    """Return how much more memory than eager's a call needs; empty where it leaves some, too."""
    first, _, rest = text.partition("; ")
    if first.startswith("each call leaves "):
        return first
    known = _PEAK.search(rest or first)
    if known is None:
        return ""
    ratio, most, of_size = (
        float(known["ratio"].replace(",", "")),
        float(known["most"]),
        _OF_SIZE.match(first),
    )
    if ratio > most or of_size is None:
        return f"{ratio:.2f} times eager's memory ({known['peak']}, at most {most:g} times allowed)"
    at, peak, eager = of_size.groups()
    figures = f"{peak}, eager {eager}"
    return f"too much memory at {at} ({figures})"


def _of_objects(found: re.Match[str]) -> str:
    """Return which object is another one than in eager."""
    if found["compiled"] == "another object":
        return f"a copy or a view is returned where in eager {found['eager']}"
    return f"{found['compiled']}, where eager returns a copy or a view"


def _of_difference(found: re.Match[str]) -> str:
    """Return what differs exactly, as one would file it."""
    where, what = found["where"], found["what"]
    # A line has the place and the number of elements after their values.
    eager, compiled = (
        re.split(r" at \[| there;|; \d+ (?:of|not)\b", found[side])[0]
        for side in ("eager", "compiled")
    )
    is_state = where.partition(" ")[0].partition("[")[0] in _STATE
    if what == "nonfinite":
        written = {"nan": "NaN", "inf": "infinity", "-inf": "-infinity"}
        numbers = (written.get(eager, "numbers"), written.get(compiled, "a number"))
        return f"{numbers[1]} where eager has {numbers[0]} in {where}"
    if what == "aliasing":
        return f"{where} shares memory with different tensors than in eager"
    if is_state and compiled in ("None", "absent", "nothing"):
        return f"write to {where} is lost: eager leaves {eager}"
    if is_state and what in ("value", "elements"):
        return f"{where} is {compiled} after the call, in eager {eager}"
    if what in ("value", "elements"):
        return f"wrong {where}: {compiled} where eager has {eager}"
    return f"{what} of {where} is {compiled}, in eager {eager}"


def _of_failure(suspect: Suspect, failure: Failure) -> str:
    when = "in the first call" if suspect.is_of_first_call else "in a later call"
    place = stacks.in_compiler(failure)
    where = f"in {place} {when}" if place else when
    match suspect.observation.status:
        case "crashed" if status := exit_status(suspect):
            return f"the process exits with status {status} {when}"
        case "crashed":
            return f"{failure.kind} {where}"
        case "timed_out":
            return f"hangs {where}"
    said = _OF_BACKEND.sub("", failure.message)
    return said if said != failure.message else f"{failure.kind}: {said}"
