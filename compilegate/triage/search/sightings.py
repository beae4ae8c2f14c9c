"""What an observation of a changed case shows of a culprit: reduced, with a remedy, or in eager."""

from __future__ import annotations

from dataclasses import replace

from compilegate.culprits.evidence import complaints, evidence
from compilegate.judging.aspects import aspect_named
from compilegate.judging.judge import judge_change
from compilegate.judging.rules import rules, verdicts
from compilegate.records.observation import Observation
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.suspect import Suspect

#: What is seen of a case whose break or guard is gone, while others are not.
OTHERS_LEFT = "this line is no longer named, and others of the case still are"


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
    return Seen("unobservable", f"it shows another failure: {', '.join(others) or seen.text}")


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
