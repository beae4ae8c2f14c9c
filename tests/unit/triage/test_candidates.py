"""A report names the known bug of the zoo that a culprit may be, by its operator and its stage."""

from dataclasses import replace

import pytest

from compilegate.culprits.grouping import culprits
from compilegate.judging import budgets_toml
from compilegate.judging.budgets import Machine
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.records.case import Case
from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.report.candidates import BUGS, candidates
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.place import Place
from compilegate.triage.search.suspect import Suspect
from compilegate.zoo import registry
from tests.unit.failing import WRONG, A, failures, wrong
from tests.unit.making import make_checked, make_environment, make_error

BUDGETS = budgets_toml.read([], sorted(SHIPPED_BUDGETS.glob("*.toml")))
DECOMPOSED = "aot_eager_decomp_partition"
ISSUE = "https://github.com/pytorch/pytorch/issues/{}"
XLOGY = {"backend": DECOMPOSED, "subsystem": "decomposition", "what": "aten.xlogy.Tensor"}


def suspect_of(case=A, release="2.15.0"):
    found = failures(wrong(case))
    (culprit,) = culprits(found)

    def budget(of):
        return BUDGETS.budget(of, Machine(), release)

    return Suspect(culprit, found[0].observation, [found[0].verdict], budget, release)


def seen(backend=DECOMPOSED, operator="smooth_l1_loss", cure="", **fields):
    stage = Stage(backend, cure=cure, left_out="autotuning" if cure else "")
    return Findings(stage=stage, place=Place(operator=operator), **fields)


@pytest.mark.parametrize(
    ("findings", "issues"),
    [
        (seen(), [194501]),
        (seen(operator="", bisected=XLOGY), [198364]),
        (seen("inductor", "clamp_"), [195675]),
        (seen("inductor"), []),
        (seen("inductor", "clamp_", cure="default"), []),
        (seen("inductor", "amin"), [191499]),
        (seen("inductor", "argmin"), [191499]),
        (seen("inductor", "amax"), []),
        (seen("inductor", "remainder"), [198057]),
        (seen("inductor", "acme::amin"), []),
        (seen("inductor", "hardtanh"), [195675]),
        (seen("inductor", "avg_pool1d"), []),
        (seen(operator="lerp"), [198364]),
        (seen(operator="gelu"), []),
        (seen(operator=""), []),
    ],
    ids=[
        *("alone", "bisected", "in place", "stage", "autotuning", "a neighbour", "its index"),
        *("no neighbour", "remainder", "of a library", "a limit", "another aspect", "strides"),
        *("operator", "none"),
    ],
)
def test_a_culprit_may_be_the_bug_of_its_operator_at_its_stage(findings, issues):
    found = [issue for issue, *_ in candidates(suspect_of(), findings)]
    assert found == [ISSUE.format(number) for number in issues]


def test_a_bug_of_gradients_is_a_candidate_where_gradients_are_wrong():
    gradients = make_checked(make_error("gradient weight", **WRONG))
    found = failures(wrong("one-cpu-train-f32-default-static", gradients=gradients))
    suspect = replace(suspect_of(), observation=found[0].observation, verdicts=[found[0].verdict])
    assert [issue for issue, *_ in candidates(suspect, seen("inductor", "avg_pool1d"))] == [
        ISSUE.format(198119)
    ]


def test_a_bug_that_the_version_of_torch_does_not_have_is_no_candidate():
    assert not [*candidates(suspect_of(release="2.9.0"), seen())]


def test_the_model_of_a_bug_names_its_issue_once():
    suspect = suspect_of("gh194501_negative_beta-cpu-infer-f32-default-static")
    text = issue.text(suspect, seen(), make_environment(), "observe", "")
    assert text.count(ISSUE.format(194501)) == 1
    other = issue.text(suspect_of(), seen(), make_environment(), "observe", "")
    assert f"- may be {ISSUE.format(194501)}: " in other
    assert "  In the zoo, `gh194501_negative_beta` fails at the same stage" in other


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.model)
def test_each_bug_is_a_model_of_the_zoo_that_a_budget_expects_to_fail(bug):
    assert bug.model in registry.load()
    budget = suspect_of().budget(replace(Case.parse(A), model=bug.model))
    assert bug.issue in {entry.issue for entry in budget.expected_failures}
