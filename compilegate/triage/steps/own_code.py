"""Finds which code of others, that the compiler runs, is at fault: no issue of PyTorch, then."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from compilegate.records.part import OwnCode
from compilegate.triage.findings import Findings
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.trials import Trials, part

#: What the code of each kind begins at, by the first backend that shows the failure.
_KINDS = {
    "inductor": ("pass", "decomposition", "lowering"),
    "aot_eager_decomp_partition": ("decomposition",),
}
#: How each kind is taken out of the compiler before it compiles.
_TAKEN_OUT = {
    "pass": "torch._inductor.config.{key} = None",
    "decomposition": "torch._inductor.decomposition.decompositions.pop(torch.ops.{key})",
    "lowering": "torch._inductor.lowering.lowerings.pop(torch.ops.{key})",
}
#: How many pieces of code are taken out one by one.
_MOST = 8
#: The subsystem in which the bisection names each kind.
_SUBSYSTEMS = {"decomposition": "decomposition", "lowerings": "lowering"}
#: The operator in a key or in what the bisection names: ``gelu`` in ``aten.gelu.default``.
_OPERATOR = re.compile(r"\w+(?:\.|::)(\w+)")


def find(trials: Trials, findings: Findings, say: Callable[[str], None]) -> None:
    """Take out code that is not PyTorch's, and look whether the case passes without it.

    Args:
        trials: Observes the case.
        findings: The stage. They receive the code, and that which is at fault.
        say: Is given a line for each thing that is tried.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    suspect = trials.suspect
    has_operators = suspect.is_of_values or suspect.fails_as_a_whole
    kinds = _KINDS.get(findings.stage.backend, ()) if has_operators else ()
    told, _ = trials.told(part(), "own") if kinds else ((), "")
    every = [OwnCode(**{**one, "keys": tuple(one["keys"])}) for one in told or ()]
    findings.own = found = [one for one in every if one.kind in kinds]
    backend, own_backend = findings.stage.backend, suspect.observation.backend
    if not found or (len(found) > 1 and _without(trials, found, backend).state != "good"):
        return
    for one in found[:_MOST]:
        seen = _without(trials, [one], backend)
        say(f"  without {one.name}: {seen.outcome}")
        if seen.state == "good":
            findings.guilty = one
            if backend != own_backend:
                seen = _without(trials, [one], own_backend)
                say(f"  without {one.name}, with {own_backend}: {seen.outcome}: {seen.text}")
            if seen.state == "good":
                findings.workarounds.append((code(one), "the case passes"))
            return


def _without(trials: Trials, taken_out: Sequence[OwnCode], backend: str) -> Seen:
    """Return what the case shows without some code."""
    keys = tuple(key for one in taken_out for key in one.keys)
    before, trials.cold = trials.cold, True  # keys of PyTorch's caches lack decompositions
    try:
        return trials.of_part(part(without=keys), backend)
    finally:
        trials.cold = before


def code(one: OwnCode) -> str:
    """Return what takes code out of the compiler."""
    return "\n".join(_TAKEN_OUT[one.kind].format(key=key) for key in one.keys)


def name_bisected(findings: Findings) -> None:
    """Note that the code is at fault which the bisection names, if a trial has not said so."""
    named = str(findings.bisected.get("what") or "")
    kind = _SUBSYSTEMS.get(str(findings.bisected.get("subsystem")), "pass")
    is_named = findings.bisected_operator if kind != "pass" else named
    for one in findings.own if findings.guilty is None and is_named else ():
        keys = (_OPERATOR.match(key) for key in one.keys)
        known = one.keys if kind == "pass" else [found[1] for found in keys if found]
        if one.kind == kind and is_named in known:
            findings.guilty = one
            return


def why_right(findings: Findings) -> str:
    """Return why no operator fails alone. Trials of operators run no recipe."""
    if absent := ", ".join(one.name for one in findings.own if one.is_late):
        return f"operators alone are compiled without {absent}, which the recipe registers"
    return "on random data, the model's operators are right"
