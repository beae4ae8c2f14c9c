"""What the script of a culprit shows: of the case, of which calls, and in which ways."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from compilegate.fuzzing.outcome import outcome_of
from compilegate.fuzzing.program import Program
from compilegate.judging.tolerances import OF_A_SLICE
from compilegate.records.case import REPLAYING_CALLS
from compilegate.triage.findings import Findings
from compilegate.triage.report.title import title_of
from compilegate.triage.scripts.probing_changes import change_of, cotangents_of, setting_of
from compilegate.triage.scripts.script import Script, may_be_brief
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.search import costs
from compilegate.triage.search.suspect import Suspect, exit_status
from compilegate.zoo.registry import Model

#: What the compiler must not do, by the aspect that fails.
_STRICT: dict[str, Literal["breaks", "recompiles"]] = {
    "graph_breaks": "breaks",
    "recompiles": "recompiles",
}
#: The error that a script then shows.
_ERRORS = {"breaks": "Unsupported", "recompiles": "FailOnRecompileLimitHit"}
#: How a number is written.
_NUMBER = re.compile(r"True|False|-?\d[\d.e+-]*")
#: State that a submodule holds, rather than a class, a function or the program.
_OF_MODULE = re.compile(r"buffer |parameter |attribute (?!class )")
#: What a script prints that counts breaks.
COUNTED = "breaks the graph"
#: How many recompilations the suite allows.
_ALLOWED = re.compile(r"\b(\d+) allowed\b")
#: What a GPU that lost its context says. Which exception says it depends on who asks first.
_LOST = re.compile(r"(?:CUDA error|Triton Error \[CUDA\]): ([^\n.;]+)")
#: How many calls come before the one that a probing call after more calls looks at.
_REPEATED = 9


def says(suspect: Suspect) -> str:
    """Return what a script prints that shows the culprit: a reason, or the class of an error."""
    failure = suspect.observation.failure
    if failure is not None and (lost := _LOST.search(failure.message)):
        return lost[1]
    if failure is None and suspect.reason:
        return suspect.reason
    if suspect.was_not_compiled:
        return ""  # fullgraph=True raises whatever kept Dynamo from compiling
    if failure is None:
        return _ERRORS.get(_STRICT.get(suspect.verdict.aspect, ""), "")
    return failure.kind if suspect.observation.status == "raised" else ""


def shows(suspect: Suspect, findings: Findings, hangs_s: float) -> Shows:
    """Return what a script of the model shows.

    Args:
        suspect: The case.
        findings: What was found of it.
        hangs_s: Seconds after which it hangs.
    """
    symptom = outcome_of(suspect.observation).symptom
    aspect = "" if suspect.fails_as_a_whole else suspect.verdict.aspect
    probes = suspect.observation.probes
    states = [call.state for call in (*suspect.observation.calls, *probes)]
    checked = [*(call.outputs for call in suspect.observation.calls), *states]
    different = [d for one in states for d in one.differences]
    differs = dict.fromkeys(d.where for d in different)
    is_first = suspect.is_of_first_call and not findings.stage.cure
    allowed = costs.budget(suspect)
    return Shows(
        title=title_of(suspect, findings),
        kind=symptom.kind if symptom and aspect not in _STRICT else "values",
        change=_change(suspect),
        cotangents=cotangents_of(suspect.probing_call.probe) if suspect.probing_call else "",
        setting=setting_of(suspect.probing_call.probe) if suspect.probing_call else "",
        aliasing=any(d.what == "aliasing" for one in checked for d in one.differences),
        identity=any(d.what == "identity" for one in checked for d in one.differences),
        sliced=f"{OF_A_SLICE} " in suspect.text,
        strict="breaks" if suspect.was_not_compiled else _STRICT.get(aspect, ""),
        reason=suspect.reason,
        recompilations=_allowed(suspect, findings) if aspect == "recompiles" else None,
        where=next(iter(differs), ""),
        differs=(*differs,),
        is_number=all(map(_NUMBER.fullmatch, (d.eager for d in different))),
        draws=suspect.observation.draws and aspect != "randomness",
        calls=1 if is_first or allowed else 0,
        most=allowed.max_memory_ratio or 0 if allowed else 0,
        more=allowed.memory_slack_bytes if allowed else 0,
        hangs_s=hangs_s,
        exits=exit_status(suspect),
    )


def part(suspect: Suspect, findings: Findings, shows: Shows, *, of_any_call: bool = False) -> str:
    """Return the submodule whose script shows the culprit alone; empty for none.

    Args:
        suspect: The case.
        findings: What was found of it.
        shows: What a script of the model shows.
        of_any_call: Whether the script can make a later call, or a probing one.
    """
    is_first = suspect.is_of_first_call and suspect.probing_call is None
    is_later = not (is_first or of_any_call)
    is_elsewhere = shows.kind == "state" and not _OF_MODULE.match(shows.where)
    is_whole = shows.strict or is_elsewhere or findings.stage.cure
    return "" if is_later or is_whole else findings.place.path


def compares(script: Script, where: str) -> bool:
    """Whether a script compares a piece of state: what it holds of Python, or tensors."""
    is_python = where.startswith(("class ", "function ", "global ", "closure ", "attribute "))
    kinds = ('made["shared"]', 'made["held"]', 'made["state"]')
    return not is_python or any(kind in script.text for kind in kinds)


def _allowed(suspect: Suspect, findings: Findings) -> int | None:
    """Return how many recompilations the suite allows, where a verdict says so."""
    seen = (each.text for each in findings.stage.seen.values())
    said = map(_ALLOWED.search, (suspect.verdict.summary, *seen))
    return next((int(found[1]) for found in said if found), None)


def _change(suspect: Suspect) -> str:
    """Return what the probing call that shows it changes, as code; empty for no change."""
    if (facts := suspect.probing_call) is None:
        return ""
    halves = {"bf16": "bfloat16", "f16": "float16"}
    axes = suspect.case.precision, suspect.case.weights.removesuffix("_weights")
    dtypes = (halves[name] for name in axes if name in halves)
    return change_of(facts.probe, next(dtypes, "float32"))


def calls(suspect: Suspect, entry: Model, *, reaches_limit: bool) -> list[dict[str, int]]:
    """Return the sizes of each call that the case makes.

    Args:
        suspect: The case.
        entry: Its model.
        reaches_limit: Whether calls follow until PyTorch's limit is hit, if the case hits it.
    """
    if (facts := suspect.probing_call) is None and suspect.observation.failure is None:
        calls = [dict(call.sizes) for call in suspect.observation.calls]
        reaches_limit &= "limit hit" in suspect.verdict.summary  # perhaps in rounds that are timed
        return [*calls, *calls[-1:] * (_REPEATED * reaches_limit)]
    sizes = entry.sizes(suspect.case.device)
    first = {name: each[0] for name, each in sizes.items()}
    if facts is not None:
        before = _REPEATED if facts.probe.startswith("after ") else 1
        return [*[first] * before, facts.sizes]
    others = [{**first, n: size} for n, each in sizes.items() for size in each[1:]]
    repeats = REPLAYING_CALLS if suspect.case.uses_cuda_graphs else 2
    varied = (*others, first) if "vary" in suspect.wants else ()
    return [*[first] * repeats, *(each for each in varied for _ in range(repeats - 1))]


def brief_way(program: Program, shows: Shows) -> Iterator[Shows]:
    """Yield the way to show something in few lines, if there is one."""
    if may_be_brief(program, shows):
        yield replace(shows, brief=True)


def ways(shows: Shows) -> Iterator[Shows]:
    """Yield ways to show something, from the shortest script to the most careful."""
    yield shows
    if shows.most:
        return
    if shows.strict == "breaks":
        yield replace(shows, counted=True)  # where fullgraph=True raises another error
    if not shows.raises:
        yield replace(shows, may_raise=True)  # in float64, where a part of a model refuses it
    yield replace(shows, careful=True)
    if not shows.strict and shows.calls != 1:
        yield replace(shows, cached=True)  # code that a cache holds for other arguments
