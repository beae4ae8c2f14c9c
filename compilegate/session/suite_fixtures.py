"""The fixtures of the suites: they observe a case, judge it and end the test."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from compilegate.judging import judge as judging
from compilegate.judging.aspects import Aspect
from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge, Judgement, Rule
from compilegate.judging.rules import verdicts
from compilegate.output.repeats import each_warning_once
from compilegate.records.case import Case
from compilegate.records.encoding import dumps
from compilegate.records.observation import Observation
from compilegate.records.run import encode
from compilegate.records.verdict import Verdict
from compilegate.runs.archive import CaseRecord
from compilegate.session.observations import OBSERVATIONS
from compilegate.session.plan import PLAN, Plan
from compilegate.upgrade.case_comparison import CaseComparison, accepted
from compilegate.upgrade.cost_change import CostChange

JUDGEMENT = pytest.StashKey[Judgement]()
COMPARISON = pytest.StashKey[CaseComparison]()
BASELINE_VERDICT = pytest.StashKey[Verdict | None]()
NEW_OBSERVATION = pytest.StashKey[dict[str, list[str]]]()


@pytest.fixture(scope="session")
def plan(request: pytest.FixtureRequest) -> Plan:
    """The plan of the session."""
    return request.config.stash[PLAN]


@pytest.fixture(scope="session")
def observation(case: Case, plan: Plan, request: pytest.FixtureRequest) -> Observation:
    """The observation of the case, which is compiled once for all tests."""
    if reason := plan.lacks(case):
        pytest.skip(reason)
    observations = request.config.stash[OBSERVATIONS]
    if observations.is_too_late(case):
        pytest.skip(f"not begun within {plan.options.stop_after:g} minutes (--stop-after)")
    made, new = observations.observe(case)
    if new and plan.paired is not None:  # its first test may wait for all fresh pairs
        request.config.hook.pytest_compilegate_observed(records=_records(plan, made))
    elif new or (plan.replays and plan.options.save):
        request.config.stash[NEW_OBSERVATION] = _records(plan, made)
    return made


def _records(plan: Plan, made: Observation) -> dict[str, list[str]]:
    """Return the lines that an observation adds to each run file."""
    lines = {"candidate": [encode(made)], "baseline": []}
    if plan.paired is not None:
        if (theirs := plan.paired.observed.get(made.case)) is not None:
            lines["baseline"] = [encode(theirs)]
        pairs = plan.paired.pairs.values()
        lines["candidate"] += [encode(pair) for pair in pairs if pair.case == made.case]
    return lines


@pytest.fixture(scope="session")
def all_cost_changes(
    plan: Plan, request: pytest.FixtureRequest
) -> Mapping[str, Sequence[CostChange]]:
    """The changes of costs that pairs show, by case id. Suspects are measured again first."""
    paired, observations = plan.paired, request.config.stash[OBSERVATIONS]
    hook = request.config.hook
    assert paired is not None
    for case in observations.unobserved:  # where no suite is selected that runs earlier
        made, new = observations.observe(case)
        if new:
            hook.pytest_compilegate_observed(records=_records(plan, made))
    for pair in paired.settle(observations.ask, plan.budget_of):
        hook.pytest_compilegate_pair(pair=pair)
    return paired.cost_changes(plan.budget_of)


@pytest.fixture
def cost_changes(case: Case, plan: Plan, request: pytest.FixtureRequest) -> Sequence[CostChange]:
    """The changes of the case's costs that pairs show; empty without pairs."""
    if plan.paired is None:
        return ()
    changes: Mapping[str, Sequence[CostChange]] = request.getfixturevalue("all_cost_changes")
    return changes.get(case.id, ())


@pytest.fixture
def before(case: Case, plan: Plan) -> CaseRecord:
    """The case under the PyTorch in use. A side that this session observed is judged, too.

    A session without a baseline has no such case.
    """
    if plan.before is None:
        return CaseRecord(planned=False)
    earlier = plan.paired.observed.get(case.id) if plan.paired else None
    if earlier is not None:
        return CaseRecord.of(earlier, verdicts(earlier, plan.budget_before(case)))
    return plan.before.seen(case)


@pytest.fixture
def budget(case: Case, plan: Plan) -> Budget:
    """The budget of the case."""
    return plan.budget(case)


@dataclass
class Printed:
    """The output of failed tests. The other tests of a case do not repeat it.

    A test that runs again shows its message again: pytest-rerunfailures drops the first one, but
    keeps the output of the observing process.

    Attributes:
        failures: The test that explains the failure to run, by case.
        commands: The test that shows it, by reproduction command.
        outputs: The cases whose observing process wrote what is shown.
        uncompiled: The aspect that failed because nothing was compiled, by case.
        uncompiled_before: The same of the baseline.
    """

    failures: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    outputs: set[str] = field(default_factory=set)
    uncompiled: dict[str, str] = field(default_factory=dict)
    uncompiled_before: dict[str, str] = field(default_factory=dict)

    def explains_elsewhere(self, case_id: str, test: str) -> bool:
        """Whether another test explains why a case did not run. If none does, this one does."""
        return self.failures.setdefault(case_id, test) != test

    def shows_elsewhere(self, command: str, test: str) -> bool:
        """Whether another test shows a command. If none does, this one does."""
        return self.commands.setdefault(command, test) != test


@pytest.fixture(scope="session")
def printed() -> Printed:
    """The output of this process's failed tests."""
    return Printed()


@pytest.fixture
def judge(
    plan: Plan,
    observation: Observation,
    budget: Budget,
    printed: Printed,
    request: pytest.FixtureRequest,
) -> Judge:
    """Apply the rule of a suite to the case, and end the test with the verdict."""
    node, case_id = request.node, observation.case
    aspect = _aspect(request)

    def apply(rule: Rule) -> None:
        __tracebackhide__ = True
        judgement = _judge(observation, budget, aspect, rule, printed.uncompiled)
        if aspect.change != "itself":
            before = printed.uncompiled_before
            node.stash[BASELINE_VERDICT] = _judge_baseline(plan, case_id, aspect, rule, before)

        def message() -> str:
            own = node.nodeid
            is_shown = (
                case_id in printed.outputs
                or printed.failures.get(case_id, own) != own
                or (observation.failure is not None and bool(observation.failure.output))
            )
            if observation.output and not is_shown:
                title = "output of the observing process"
                node.add_report_section("call", title, each_warning_once(observation.output))
                printed.outputs.add(case_id)
            is_brief = judgement.of_case and printed.explains_elsewhere(case_id, own)
            command = plan.reproduction(observation, aspect.practice)
            shown = "" if printed.shows_elsewhere(command, own) else command
            return _message(judgement, shown, is_brief=is_brief)

        _end(request, judgement, message)

    return apply


@pytest.fixture
def judge_change(
    case: Case, budget: Budget, request: pytest.FixtureRequest
) -> Callable[[CaseComparison, Finding], None]:
    """End a test with a finding on how a case changed, whether or not it was observed."""
    aspect = _aspect(request)

    def apply(comparison: CaseComparison, finding: Finding) -> None:
        __tracebackhide__ = True
        judgement = judging.judge_change(case.id, budget, aspect.name, finding)
        is_accepted = judgement.verdict.outcome == "expected_failure"
        request.node.stash[COMPARISON] = accepted(comparison) if is_accepted else comparison
        lines = (judgement.verdict.summary, *(f"  {line}" for line in finding.details))
        _end(request, judgement, lambda: "\n".join(lines))

    return apply


def _aspect(request: pytest.FixtureRequest) -> Aspect:
    aspect = Aspect.of(request.node)
    assert aspect is not None, "a test that judges needs the marker of its aspect"
    return aspect


def _judge(
    observation: Observation,
    budget: Budget,
    aspect: Aspect,
    rule: Rule,
    uncompiled: dict[str, str],
) -> Judgement:
    """Judge an aspect. Where nothing was compiled, the first aspect of the case says so.

    Args:
        observation: The case.
        budget: What is allowed.
        aspect: The aspect.
        rule: The rule of the aspect.
        uncompiled: The aspect that said so, by case.
    """
    said_by = uncompiled.get(observation.case, "")
    said_by = "" if said_by == aspect.name else said_by  # the test runs again
    made = judging.judge(observation, budget, aspect.name, rule, aspect.wants, said_by=said_by)
    if judging.says_that_nothing_compiled(made, observation):
        uncompiled[observation.case] = aspect.name
    return made


def _judge_baseline(
    plan: Plan, case_id: str, aspect: Aspect, rule: Rule, uncompiled: dict[str, str]
) -> Verdict | None:
    """Judge the baseline's observation of a case; None if there is none."""
    if plan.paired is None or case_id not in plan.paired.observed:
        return None
    theirs = plan.paired.observed[case_id]
    budget = plan.budget_before(Case.parse(case_id))
    verdict = _judge(theirs, budget, aspect, rule, uncompiled).verdict
    plan.paired.verdicts[case_id, aspect.name] = verdict
    return verdict


def _end(request: pytest.FixtureRequest, judgement: Judgement, message: Callable[[], str]) -> None:
    """End a test with its verdict."""
    __tracebackhide__ = True
    request.node.stash[JUDGEMENT] = judgement
    verdict = judgement.verdict
    match verdict.outcome:
        case "failed":
            pytest.fail(message(), pytrace=False)
        case "expected_failure":
            pytest.xfail(verdict.summary)
        case "inconclusive" if request.config.getoption("fail_inconclusive"):
            pytest.fail(f"inconclusive: {message()}", pytrace=False)
        case "inconclusive" | "skipped":
            pytest.skip(verdict.summary)


def _message(judgement: Judgement, reproduction: str, *, is_brief: bool) -> str:
    """Return the text of a failure: the summary, the evidence, the command if there is one."""
    verdict = judgement.verdict
    if is_brief:
        return f"{verdict.summary} (explained above)"
    lines = [verdict.summary]
    lines += [f"  {line}" for line in verdict.details if line not in verdict.summary]
    lines += [f"reproduce: {reproduction}"] if reproduction else []
    return "\n".join(lines)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach records to reports, so that xdist sends them to the process that writes the run file.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_runtest_makereport
    """
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
