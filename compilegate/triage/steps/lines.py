"""Finds the lines of the user's code that show a culprit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from compilegate.judging.aspects import aspect_named
from compilegate.judging.tensors import examine
from compilegate.records.part import FEW, CppLine, LineDiffers
from compilegate.triage.findings import Findings
from compilegate.triage.search.suspect import Suspect, is_of_cpp
from compilegate.triage.search.trials import Trials, part

#: The fields that are tuples, which JSON has not.
_LISTS = ("modules", "left_out", "unseen", "lines", "writes", "lost")
#: How state of Python is named, and the variable or attribute that holds it.
_OF_PYTHON = re.compile(
    r"(?P<kind>attribute|class|closure|function|global) .*?(?P<name>\w+)(?:\[.*)?$"
)
#: What comes before the stack of the user's code, and a frame of that.
_USER_CODE = "\nfrom user code:\n"
_FRAME = re.compile(r'File "(.+)", line (\d+), in \S+\n\s*(.+)')
#: The stages whose graphs are compared line by line with those of the stage before.
_COMPARED = ("eager", "aot_eager")


def find(trials: Trials, findings: Findings, say: Callable[[str], None], root: str = "") -> None:
    """Find the lines that call what is at fault, or the first that is wrong or raises.

    At fault is what has the line of C++ that does not compile, or what the bisection named.

    Args:
        trials: Observes the model.
        findings: The stage and the bisection. They receive the lines.
        say: Is given a line for each thing that is found.
        root: The folder that files are named from; by default the current one.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    if findings.place.source or findings.stage.is_recomputed:
        return
    if is_of_cpp(trials.suspect) and not findings.place.operator:
        _find_cpp(trials, findings, say)
    if findings.cpp is not None and findings.cpp.source:
        return
    if findings.bisected_operator:
        _find_calls(trials, findings, say)
    elif findings.stage.backend in _COMPARED and trials.suspect.is_of_values:
        _find_first_wrong(trials, findings, say)
    elif trials.suspect.is_of_values and not findings.named:
        _find_few(trials, findings)
    elif (failure := trials.suspect.observation.failure) is not None:
        findings.raises_at = named_in(failure.traceback, Path(root or Path.cwd()))
        if not findings.raises_at and trials.suspect.observation.status == "raised":
            _find_raising(trials, findings)
        if findings.raises_at:
            say(f"  the compiler raises at {findings.raises_at}")


def named_in(traceback: str, root: Path) -> str:
    """Return the line of the user's code that the compiler names in an exception.

    Args:
        traceback: The traceback. Dynamo adds the stack of the user's code to the message.
        root: The folder that files are named from. Others have their name alone.
    """
    _, _, named = traceback.partition(_USER_CODE)
    frames = _FRAME.findall(named)
    if not frames:
        return ""
    file, line, text = frames[-1]
    path = Path(file)
    shown = path.relative_to(root) if path.is_relative_to(root) else path.name
    return f"{shown}:{line}: {text}"


def _find_cpp(trials: Trials, findings: Findings, say: Callable[[str], None]) -> None:
    """Find the operator of the line that a C++ compiler refuses: others are fused with it."""
    told, why = trials.told(part(), "cpp")
    if told is None:
        findings.notes.append(f"no operator of the line of C++ that does not compile: {why}")
        return
    findings.cpp = CppLine(**told)
    say(f"  the line of C++ is that of {findings.cpp.operator}: {findings.cpp.line}")


def _find_calls(trials: Trials, findings: Findings, say: Callable[[str], None]) -> None:
    """Find the lines that call the operator which the bisection named."""
    name = findings.bisected_operator
    told, why = trials.told(part(path=findings.place.path), "operators")
    findings.called_at = _lines_that_call(name, told or (), findings)
    if why:
        findings.notes.append(f"no line of code that calls {name}: {why}")
    for line in findings.called_at[:1]:
        say(f"  {name} is called at {line}")


def _find_first_wrong(trials: Trials, findings: Findings, say: Callable[[str], None]) -> None:
    """Find the first line whose result in a graph is not that of the stage before."""
    told, why = trials.told(part(backend=findings.stage.backend), "lines")
    if told is None:
        findings.notes.append(f"no comparison of graphs line by line: {why}")
        return
    lists = {name: tuple(told[name]) for name in _LISTS}
    found = LineDiffers(**{**told, **lists})
    lost_from, lost = of_state(trials.suspect, found)
    touched = of_what_differs(trials.suspect, found)
    found = replace(found, touched=touched, lost=lost, lost_from=lost_from)
    findings.line = replace(found, changed={})
    if found.lost:
        say(f"  {found.lost_from} is changed by {'; '.join(found.lost)}")
    elif found.source:
        say(f"  the first line with another result: {found.source}: {found.code}")
    else:
        say(f"  {found.compared} results of lines are the same in the graph")


def of_state(suspect: Suspect, found: LineDiffers) -> tuple[str, tuple[str, ...]]:
    """Return the first state of Python that differs, and the few lines that change it in eager.

    Both are empty where tensors are wrong, or the result of a line.
    """
    observation, number = suspect.observation, suspect.shown_in
    if found.source or suspect.probing_call is not None or number >= len(observation.calls):
        return "", ()
    for one in observation.calls[number].state.differences:
        if named := _OF_PYTHON.match(one.where):
            is_variable = named["kind"] in ("closure", "global")
            names = [f".{named['name']}", *[named["name"]] * is_variable]
            lines = tuple(line for name in names for line in found.changed.get(name, ()))
            return (one.where, lines) if lines and len(lines) <= FEW else ("", ())
    return "", ()


def of_what_differs(suspect: Suspect, found: LineDiffers) -> dict[str, str]:
    """Return the lines that make or read the tensors which are wrong, if these are few.

    Lines are compared forward. What is wrong in a backward, or in how outputs are returned, shows
    in the tensors' names alone.
    """
    group = aspect_named(suspect.verdict.aspect).tensors
    if found.source or not group or suspect.probing_call is not None:
        return {}
    call = re.compile(rf"call {suspect.shown_in + 1}\b")
    text = "\n".join(filter(call.match, examine(suspect.observation, group).complaints))
    named = [
        (name, line)
        for name, line in found.touched.items()
        if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.\[])", text)
    ]
    if group == "gradients":  # a backward passes on what is wrong, to what is read before
        named = [(f"gradient {name}", line) for name, line in named if line == named[-1][1]]
    return dict(named) if len({line for _, line in named}) <= FEW else {}


def _find_raising(trials: Trials, findings: Findings) -> None:
    """Find the line whose operator raises, as where its backward is compiled or runs.

    If no graph knows which that is, the lines that call the operator which fails alone are named,
    or those of a small graph.
    """
    told, _ = trials.told(part(backend=findings.stage.shown_by), "raising")
    findings.raises_at = str(told or "")
    findings.is_traced = bool(told)
    if findings.raises_at:
        return
    if findings.place.operator:  # of a submodule that is PyTorch's: the model calls that
        graph, _ = trials.told(part(), "graph")
        known = (graph or {}).get("statements", ())
        own = (one["source"] for one in known if one["operator"] == findings.place.operator)
        findings.called_at = [*dict.fromkeys(filter(None, own))]
    else:
        _find_few(trials, findings)


def _find_few(trials: Trials, findings: Findings) -> None:
    """Find the lines of a small graph, where no operator and no bisection names one."""
    told, _ = trials.told(part(path=findings.place.path), "operators")
    lines = tuple(dict.fromkeys(filter(None, (one["source"] for one in told or ()))))
    if lines and len(lines) <= FEW:
        findings.line = LineDiffers(lines=lines)


def _lines_that_call(
    name: str, operators: Sequence[Mapping[str, str]], findings: Findings
) -> list[str]:
    """Return the lines of code that call the operator which the bisection named, each once."""
    key = "of" if findings.bisected["subsystem"] == "decomposition" else "name"
    lines = (one["source"] for one in operators if one[key] == name)
    return [*dict.fromkeys(filter(None, lines))]
