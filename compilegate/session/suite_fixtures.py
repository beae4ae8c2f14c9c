"""The fixtures of the suites: from a case to the observation, and from that to the test's end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

import msgspec
import pytest

from compilegate.judging import judge as judging
from compilegate.judging.aspects import Aspect, Budget
from compilegate.judging.judge import Finding, Judge, Judgement, Rule
from compilegate.records.case import Case
from compilegate.records.encoding import dumps
from compilegate.records.observation import Observation
from compilegate.records.run import encode
from compilegate.records.verdict import Verdict
from compilegate.session.plan import GATE, Gate
from compilegate.upgrade.comparison import CaseComparison, Slowdown
from compilegate.upgrade.paired_speed import SpeedChange, as_slowdown

JUDGEMENT = pytest.StashKey[Judgement]()
COMPARISON = pytest.StashKey[CaseComparison]()
BASELINE_VERDICT = pytest.StashKey[Verdict | None]()
NEW_OBSERVATION = pytest.StashKey[dict[str, list[str]]]()


@pytest.fixture(scope="session")
def gate(request: pytest.FixtureRequest) -> Gate:
    """The plan of the session."""
    return request.config.stash[GATE]


@pytest.fixture(scope="session")
def observation(case: Case, gate: Gate, request: pytest.FixtureRequest) -> Observation:
    """What was measured for the case: compiled once for all tests that ask."""
    if reason := gate.lacks(case):
        pytest.skip(reason)
    made, new = gate.observe(case)
    if new or (gate.replays and gate.options.save):
        request.config.stash[NEW_OBSERVATION] = _records(gate, made)
    return made


def _records(gate: Gate, made: Observation) -> dict[str, list[str]]:
    """The lines that an observation adds to each run file."""
    lines = {"candidate": [encode(made)], "baseline": []}
    if gate.paired is not None:
        if (theirs := gate.paired.observed.get(made.case)) is not None:
            lines["baseline"] = [encode(theirs)]
        pairs = gate.paired.pairs.values()
        lines["candidate"] += [encode(pair) for pair in pairs if pair.case == made.case]
    return lines


@pytest.fixture(scope="session")
def speeds(gate: Gate, request: pytest.FixtureRequest) -> Mapping[str, SpeedChange]:
    """What pairs of processes come to, by case: suspects are timed again first."""
    assert gate.paired is not None
    for pair in gate.paired.settle(gate.ask):
        request.config.hook.pytest_compilegate_pair(pair=pair)
    return gate.paired.speeds()


@pytest.fixture
def slowdown(case: Case, gate: Gate, request: pytest.FixtureRequest) -> Slowdown | None:
    """What pairs of processes show of the case's speed; None where there are none."""
    if gate.paired is None:
        return None
    seen = request.getfixturevalue("speeds").get(case.id)
    return as_slowdown(seen) if seen else None


@pytest.fixture
def budget(case: Case, gate: Gate) -> Budget:
    """What the case is allowed."""
    return gate.budget(case)


@pytest.fixture
def judge(
    case: Case, gate: Gate, observation: Observation, budget: Budget, request: pytest.FixtureRequest
) -> Judge:
    """Applies a suite's rule and ends the test as the verdict says."""
    node = request.node
    aspect = _aspect(request)

    def apply(rule: Rule) -> None:
        __tracebackhide__ = True
        judgement = judging.judge(observation, budget, aspect.name, rule, aspect.wants)
        told = observation.case in gate.explained or (
            observation.failure is not None and bool(observation.failure.output)
        )
        if observation.output and not told:  # shown by pytest if the test fails
            node.add_report_section("call", "output of the observing process", observation.output)
        if aspect.needs != "pairs":
            theirs = gate.judge_baseline(case, aspect.name, rule, aspect.wants)
            node.stash[BASELINE_VERDICT] = theirs
        _end(request, judgement, lambda: _message(judgement, gate, observation))

    return apply


@pytest.fixture
def judge_change(
    case: Case, gate: Gate, budget: Budget, request: pytest.FixtureRequest
) -> Callable[[CaseComparison, Finding], None]:
    """Ends a test as a finding on what became of a case says, whether or not it was observed."""
    aspect = _aspect(request)

    def apply(comparison: CaseComparison, finding: Finding) -> None:
        __tracebackhide__ = True
        request.node.stash[COMPARISON] = comparison
        judgement = judging.judge_change(case.id, budget, aspect.name, finding)
        lines = (judgement.verdict.summary, *(f"  {line}" for line in finding.details))
        _end(request, judgement, lambda: "\n".join(lines))

    return apply


def _aspect(request: pytest.FixtureRequest) -> Aspect:
    aspect = Aspect.of(request.node)
    assert aspect is not None, "a test that judges is marked with its aspect"
    return aspect


def _end(request: pytest.FixtureRequest, judgement: Judgement, message: Callable[[], str]) -> None:
    """End a test as its verdict says."""
    __tracebackhide__ = True
    request.node.stash[JUDGEMENT] = judgement
    verdict = judgement.verdict
    match verdict.outcome:
        case "failed":
            pytest.fail(message(), pytrace=False)
        case "expected_failure":
            pytest.xfail(verdict.summary)
        case "inconclusive" if request.config.getoption("fail_inconclusive"):
            pytest.fail(f"inconclusive: {verdict.summary}", pytrace=False)
        case "inconclusive" | "skipped":
            pytest.skip(verdict.summary)


def _message(judgement: Judgement, gate: Gate, observation: Observation) -> str:
    """A failure as a person reads it: what, then the evidence, then how to see it again."""
    verdict = judgement.verdict
    if judgement.of_case:
        if observation.case in gate.explained:
            return f"{verdict.summary} (explained above)"
        gate.explained.add(observation.case)
    lines = [verdict.summary]
    lines += [f"  {line}" for line in verdict.details if line != verdict.summary]
    lines.append(f"see it again: {gate.reproduction(observation)}")
    return "\n".join(lines)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Sends records along with reports, so that xdist brings them to the one run file."""
    report = yield
    extra: Any = report
    observed = item.config.stash.get(NEW_OBSERVATION, None)
    if observed is not None and call.when == "setup":
        extra.compilegate_records = observed
        del item.config.stash[NEW_OBSERVATION]
    judgement = item.stash.get(JUDGEMENT, None)
    if judgement is not None and call.when == "call":
        extra.compilegate_verdict = encode(judgement.verdict)
        theirs = item.stash.get(BASELINE_VERDICT, None)
        extra.compilegate_baseline_verdict = encode(theirs) if theirs else ""
        extra.compilegate_proposal = dumps(dict(judgement.proposal))
        if (comparison := item.stash.get(COMPARISON, None)) is not None:
            extra.compilegate_comparison = msgspec.json.encode(comparison).decode()
        extra.inconclusive = judgement.verdict.outcome == "inconclusive" and report.skipped
    return report
