"""What an observation of a changed case shows of a culprit: reduced, with a remedy, or in eager."""

from __future__ import annotations

import re
from dataclasses import replace

from compilegate.culprits.evidence import NUMBERS, complaints, evidence
from compilegate.judging.aspects import aspect_named
from compilegate.judging.judge import judge_change
from compilegate.judging.rules import rules, verdicts
from compilegate.processes import lost_device
from compilegate.records.observation import Observation
from compilegate.triage.search import costs
from compilegate.triage.search.seen import OTHER, Seen
from compilegate.triage.search.suspect import Suspect

#: What is seen of a case whose break or guard is gone, while others are not.
OTHERS_LEFT = "this line is no longer named, but other lines of the case are"
#: The class of an error that another one wraps.
_WRAPPED = re.compile(r"(?:\w+: )?(\w+(?:Error|Exception)): ")


def of_whole(suspect: Suspect, observation: Observation, *, is_own: bool) -> Seen:
    """Return whether the case shows the failure, with its own backend or with another one."""
    seen = again(suspect, observation) if is_own else suspect.seen_in(observation)
    return seen.as_other(seen.state == "bad" and costs.is_far(suspect, observation))


def again(suspect: Suspect, observation: Observation) -> Seen:
    """Return whether the case shows the failure again with its own backend.

    Its numbers may be others, but not what is wrong: an exception of another class, or a layout in
    place of numbers, has a cause of its own.
    """
    seen = suspect.seen_in(observation)
    if seen.state != "bad":
        return seen
    if suspect.fails_as_a_whole:
        is_other = _ending(suspect.observation) != _ending(observation)
    else:
        known, found = (
            _own_complaints(suspect, suspect.observation),
            _own_complaints(suspect, observation),
        )
        is_other = bool(known and found) and known.isdisjoint(found)
    return seen.as_other(is_other)


def in_reduced(suspect: Suspect, observation: Observation) -> Seen:
    """Return whether a reduced case shows the failure, and no other that the case does not.

    An ``nn.Identity`` in place of a submodule may bring a failure of its own.
    """
    seen = suspect.seen_in(observation)
    if seen.state != "bad" or not suspect.is_of_values:
        return seen
    known, found = _complaints(suspect, suspect.observation), _complaints(suspect, observation)
    if found <= known and found & complaints(suspect.verdict):
        return seen
    others = sorted(" ".join(one) for one in found - known)
    return Seen("unobservable", f"{OTHER}{', '.join(others) or seen.text}")


def with_remedy(suspect: Suspect, observation: Observation) -> Seen:
    """Return whether the break or the guard of the culprit is there: a case may have more."""
    seen = suspect.seen_in(observation)
    if seen.state != "bad" or suspect.was_not_compiled or not suspect.evidence.line:
        return seen
    budget = replace(suspect.budget(suspect.case), expected_failures=())
    found = [v for v in verdicts(observation, budget) if v.aspect == suspect.verdict.aspect]
    left = {piece.key for verdict in found for piece in evidence(observation, verdict)}
    if left.isdisjoint(piece.key for piece in suspect.pieces):
        return Seen("good", OTHERS_LEFT)
    return seen


def in_eager(suspect: Suspect, observation: Observation) -> Seen:
    """Return whether an observation in which eager may do everything shows the failure."""
    if observation.failure is not None or suspect.fails_as_a_whole:
        return suspect.seen_in(observation)
    budget = replace(suspect.budget(suspect.case), expected_failures=())
    (rule,) = (rule for aspect, rule in rules() if aspect.name == suspect.verdict.aspect)
    judgement = judge_change(
        observation.case, budget, suspect.verdict.aspect, rule(observation, budget)
    )
    if suspect.verdict.aspect == "recompiles" and "ran eagerly" in judgement.verdict.summary:
        return Seen("good", "nothing is compiled, so nothing is compiled again")
    return Seen.in_verdicts([judgement.verdict])


def _complaints(suspect: Suspect, observation: Observation) -> set[tuple[str, str, str]]:
    """Return all that an observation shows to be wrong with tensors."""
    budget = replace(suspect.budget(suspect.case), expected_failures=())
    found = [v for v in verdicts(observation, budget) if v.outcome == "failed"]
    tensors = (v for v in found if aspect_named(v.aspect).tensors)
    return {one for verdict in tensors for one in complaints(verdict)}


def _own_complaints(suspect: Suspect, observation: Observation) -> set[tuple[str, str]]:
    """Return what an observation shows to be wrong with the tensors of the culprit's aspect."""
    found = _complaints(suspect, observation)
    return {
        (where, "numbers" if what in NUMBERS else what)
        for aspect, where, what in found
        if aspect == suspect.verdict.aspect
    }


def _ending(observation: Observation) -> tuple[str, ...]:
    """Return what tells how a case ended: the class of an exception, or a status of its own.

    Memory that is overwritten kills a process by one signal or another, and an error of a GPU is
    raised by whoever asks first.
    """
    failure = observation.failure
    if (
        failure is None
        or observation.status == "timed_out"
        or lost_device.is_suspected(observation)
    ):
        return ()
    if observation.status == "crashed":
        return (failure.message,) if failure.kind == "exit" else ()
    wrapped = _WRAPPED.match(failure.message)
    return (failure.kind, wrapped[1] if wrapped else "")
