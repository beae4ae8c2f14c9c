"""The line of Inductor that raises, or the function of PyTorch in which a case dies or hangs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from compilegate.culprits import stacks
from compilegate.triage.findings import Findings
from compilegate.triage.search.suspect import Suspect

#: A frame of a traceback, and the line of code below it.
_FRAME = re.compile(
    r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)$'
    r'(?:\n +(?!File ")(?P<code>\S.*)$)?',
    re.MULTILINE,
)
#: The file of a frame of Inductor, from the package on.
_OF_INDUCTOR = re.compile(r"(?:^|/)(torch/_inductor/.+)")
#: The file of code that Inductor generated: what raises there is no longer the compiler.
_GENERATED = re.compile(r"torchinductor|/c[a-z0-9]{20,}\.py$")
#: The class of errors of a C++ compiler: the line that starts it is not at fault.
_OF_COMPILER = "CppCompileError"


def paragraph(suspect: Suspect, findings: Findings) -> Iterator[str]:
    """Yield the paragraph; nothing where something else raises, as a pass of the team's own.

    Args:
        suspect: The case.
        findings: What was found.
    """
    failure, status = suspect.observation.failure, suspect.observation.status
    if failure is not None and status in ("crashed", "timed_out"):
        if place := stacks.in_compiler(failure):
            how = "dies" if status == "crashed" else "hangs"
            yield from (f"**Function of PyTorch:** the case {how} in `{place}`.", "")
        return
    if failure is None or findings.stage.backend != "inductor" or findings.guilty is not None:
        return
    if line := raising(failure.traceback):
        yield from (f"**Line of Inductor:** the compiler raises at `{line}`.", "")


def raising(traceback: str) -> str:
    """Return the innermost line of Inductor in a traceback; empty if generated code raises.

    Args:
        traceback: The traceback, as Python prints it.
    """
    if _OF_COMPILER in traceback:
        return ""
    for frame in reversed([*_FRAME.finditer(traceback)]):
        if _GENERATED.search(frame["file"]):
            return ""
        if found := _OF_INDUCTOR.search(frame["file"]):
            code = f": {frame['code']}" if frame["code"] else ""
            return f"{found[1]}:{frame['line']} in {frame['function']}{code}"
    return ""
