"""Which expected failures are about an aspect of a case, and explain what was found."""

from __future__ import annotations

import re
from collections.abc import Sequence

from compilegate.judging.completeness import nothing_compiled, was_observed
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.judging.finding import Finding
from compilegate.records.observation import Observation
from compilegate.records.practice import PRACTICES

#: The stages that only some requests have.
_OPTIONAL_STAGES = (
    *("time", "memory", "energy", "vary", "random", "restart", "compile_work"),
    *PRACTICES,
)


def concerns(expected: ExpectedFailure, aspect: str, observation: Observation) -> bool:
    """Whether the entry is about this aspect, or about a stage that the case had to reach."""
    if observation.failure is not None and was_observed(observation, aspect):
        return not expected.stage and expected.aspect == aspect
    if expected.stage in _OPTIONAL_STAGES:
        return expected.stage in observation.wants
    return bool(expected.stage) or expected.aspect == aspect


def covers(expected: ExpectedFailure, aspect: str, observation: Observation) -> bool:
    """Whether this is the failure that was expected, not another one."""
    if not expected.stage:
        return was_observed(observation, aspect) and not nothing_compiled(observation)
    if expected.stage == "crash":
        return observation.status in ("crashed", "timed_out")
    if expected.stage == "compile" and observation.status == "completed":
        return nothing_compiled(observation)
    return observation.failure is not None and observation.failure.stage == expected.stage


def explaining(entries: Sequence[ExpectedFailure], finding: Finding) -> list[ExpectedFailure]:
    """Return few entries that match all lines of a failure; none if a line has no match."""
    lines = finding.complaints or (finding.summary,)
    matched = {entry: {line for line in lines if re.search(entry.match, line)} for entry in entries}
    found: list[ExpectedFailure] = []
    left = {*lines}
    while left:
        most = max(entries, key=lambda entry: len(matched[entry] & left), default=None)
        if most is None or not matched[most] & left:
            return []
        found.append(most)
        left -= matched[most]
    return found
