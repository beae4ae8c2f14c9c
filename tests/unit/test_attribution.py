"""Which change explains which case, in words, in run files and in reports."""

import pytest

from compilegate.records.attribution import Attribution, Cause, DistributionChange
from compilegate.records.observation import Failure
from compilegate.reports import attribution_text, html, markdown
from compilegate.reports.comparison_text import comparison_lines
from compilegate.runs import files
from compilegate.runs.archive import Archive, CaseRecord
from compilegate.upgrade.attribution.attribute import Tried, attribute
from compilegate.upgrade.attribution.groups import Group
from compilegate.upgrade.attribution.symptoms import Symptom
from compilegate.upgrade.case_comparison import CaseComparison
from compilegate.upgrade.comparison import compare, dump, load
from compilegate.upgrade.decision import decide
from compilegate.upgrade.verdict_changes import Change
from tests.unit.making import CASE_ID, make_observation, make_verdict
from tests.unit.runs import NEW, OLD, compared, seen, write_run

OTHER = CASE_ID.replace("tiny", "other")
CHANGES = {
    name: DistributionChange(name=name, before="1", now="2")
    for name in ("torch", "triton", "timm", "pip")
}
PARTS = (Group("triton", frozenset({"triton"})), Group("torch", frozenset({"torch"})))
GROUPS = [
    Group("torch", frozenset({"torch", "triton"}), PARTS),
    Group("timm", frozenset({"timm"})),
    Group("pip", frozenset({"pip"})),
]
TIMM = Attribution(
    case=CASE_ID,
    kind="broken",
    aspect="forward",
    causes=(Cause(changes=(DistributionChange(name="timm", before="1.0.30", now="1.0.31"),)),),
    environments=4,
    python="/x/.environments/ab/bin/python",
)


def red(case=CASE_ID, kind="broken", aspect="forward", effect="broken"):
    return CaseComparison(case, kind, (Change(aspect, effect, "differs"),))


def attributed(causes, cases=(CASE_ID,), **how):
    """Attributions, and the environments tried, where these causes make each case worse."""
    tried = []

    def try_(names, some):
        tried.append((names, tuple(some)))
        shown = {c: "red" if any(names >= cause for cause in causes[c]) else "green" for c in some}
        return Tried(shown, f"/envs/{'-'.join(sorted(names))}/python")

    found = attribute([red(case) for case in cases], GROUPS, CHANGES, try_, **how)
    return {one.case: one for one in found}, tried


def test_one_change_is_named_alone_with_the_environment_that_shows_it():
    found, _ = attributed({CASE_ID: [{"timm"}]})
    assert found[CASE_ID].cause == "timm 1 → 2 alone"
    assert found[CASE_ID].python == "/envs/timm/python"
    assert found[CASE_ID].environments == 3


def test_a_combination_is_named_together():
    found, _ = attributed({CASE_ID: [{"timm", "torch"}]})
    assert found[CASE_ID].cause == "torch 1 → 2 together with timm 1 → 2"


def test_a_group_that_cannot_be_divided_names_what_came_with_it():
    both = [{"torch", "triton"}]
    found, _ = attributed({CASE_ID: both})
    assert found[CASE_ID].cause == "torch 1 → 2 (with triton 1 → 2) alone"


def test_cases_share_environments_and_each_is_tried_until_it_is_explained():
    found, tried = attributed({CASE_ID: [{"torch"}], OTHER: [{"timm"}]}, (CASE_ID, OTHER))
    assert {case: one.cause for case, one in found.items()} == {
        CASE_ID: "torch 1 → 2 alone",
        OTHER: "timm 1 → 2 alone",
    }
    assert tried[0] == ({"torch", "triton"}, (CASE_ID, OTHER))
    assert ({"timm"}, (OTHER,)) in tried
    assert [some for names, some in tried if not names] in (
        [(CASE_ID, OTHER)],
        [(CASE_ID,), (OTHER,)],
    )


def test_what_no_distribution_explains_is_said_with_what_else_differs():
    found, _ = attributed({CASE_ID: []}, otherwise="python 3.11.9 → 3.12.4")
    assert not found[CASE_ID].causes
    assert found[CASE_ID].why.endswith("is no distribution: python 3.11.9 → 3.12.4")


def test_a_case_that_is_bad_in_a_copy_of_the_version_in_use_has_no_cause():
    found, _ = attributed({CASE_ID: [set()]})
    assert "as bad in a copy of the version in use" in found[CASE_ID].why


def test_an_environment_that_cannot_be_made_is_named():
    def try_(names, some):
        return Tried({}, trouble="cannot install timm==2")

    (found,) = attribute([red()], GROUPS, CHANGES, try_)
    assert found.why.endswith("does not settle it: cannot install timm==2")


def test_the_number_of_environments_has_a_limit():
    found, tried = attributed({CASE_ID: [{"pip"}]}, limit=2)
    assert len(tried) == 2
    assert found[CASE_ID].why == "not found in 2 environments, the most that are tried"


def test_without_a_changed_distribution_nothing_is_tried():
    (found,) = attribute([red()], [], {}, Tried, otherwise="OMP_NUM_THREADS 1 → 2")
    assert found.why == "no installed distribution differs; what differs: OMP_NUM_THREADS 1 → 2"


PASSED, FAILED = seen(forward="passed"), seen(forward="failed")


def crashed(kind="ValueError", stage="compile"):
    failure = Failure(stage=stage, kind=kind, message="no")
    return CaseRecord.of(make_observation(status="raised", failure=failure), [])


def shown(now, candidate):
    """What an environment shows of what the candidate showed."""
    symptom = Symptom.of(compared(PASSED, candidate), candidate)
    return symptom.shown_by(compared(PASSED, now), now)


@pytest.mark.parametrize(
    ("now", "candidate", "expected"),
    [
        (FAILED, FAILED, "red"),
        (PASSED, FAILED, "green"),
        (crashed(), crashed(), "red"),
        (PASSED, crashed(), "green"),
        (crashed(), FAILED, "unclear"),
        (FAILED, crashed(), "green"),
        (crashed("TypeError"), crashed(), "unclear"),
        (crashed(stage="build"), crashed(), "unclear"),
        (CaseRecord(planned=True), FAILED, "unclear"),
        (seen(forward="inconclusive"), FAILED, "unclear"),
        (seen(forward="passed", gradients="failed"), FAILED, "green"),
    ],
)
def test_an_environment_shows_a_symptom_only_if_it_is_the_same(now, candidate, expected):
    assert shown(now, candidate) == expected


def test_costs_need_pairs_and_results_do_not():
    slower = red(kind="regressed", aspect="slowdown", effect="worse")
    assert Symptom.of(slower, PASSED).is_cost
    assert not Symptom.of(red(), PASSED).is_cost


@pytest.fixture
def stored(tmp_path):
    """Compares two paired runs, whose candidate fails and holds these attributions."""

    page = []

    def make(*attributions, paired=True):
        before = write_run(
            tmp_path / "two.baseline.jsonl",
            *(make_observation(case=case) for case in (CASE_ID, OTHER)),
            *(make_verdict("passed", case=case, aspect="forward") for case in (CASE_ID, OTHER)),
            environment=OLD,
        )
        now = write_run(
            tmp_path / "two.jsonl",
            *(make_observation(case=case) for case in (CASE_ID, OTHER)),
            *(make_verdict("failed", case=case, aspect="forward") for case in (CASE_ID, OTHER)),
            *attributions,
            environment=NEW,
            baseline="two.baseline" if paired else "",
        )
        with Archive(before) as old, Archive(now) as new:
            comparison = compare(old, new, {} if paired else None)
            page.extend(html.of_comparison(comparison, old, new))
            return comparison, now

    make.page = page
    return make


def of(case, **changed):
    fields = {name: getattr(TIMM, name) for name in TIMM.__dataclass_fields__}
    return Attribution(**fields | {"case": case} | changed)


def test_a_run_file_keeps_attributions(stored):
    _, path = stored(TIMM)
    assert files.read(path).attributions == {CASE_ID: TIMM}


def test_a_change_that_explains_every_case_is_in_the_headline(stored):
    comparison, _ = stored(TIMM, of(OTHER))
    assert decide(comparison).because == "2 broken, all by timm 1.0.30 → 1.0.31 alone"


def test_a_change_that_explains_one_of_two_cases_is_not(stored):
    comparison, _ = stored(TIMM)
    assert decide(comparison).because == "2 broken"
    unexplained = of(OTHER, causes=(), why="it does not repeat")
    comparison, _ = stored(TIMM, unexplained)
    assert decide(comparison).because == "2 broken"


def test_each_report_shows_causes_and_what_is_not_attributed(stored, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    comparison, _ = stored(TIMM, of(OTHER, causes=(), why="it does not repeat"))
    title, cause, other = (
        "attributed, by trying 4 environments between the two",
        f"broken by timm 1.0.30 → 1.0.31 alone: {CASE_ID}",
        f"broken, and not attributed: {OTHER}: it does not repeat",
    )
    assert [*attribution_text.lines(comparison)] == [
        f"{cause}; to try it, use {TIMM.python}",
        other,
    ]
    text = "\n".join(comparison_lines(comparison, everything=True))
    assert f"{title}:\n  {cause}; to try it" in text
    assert f"  {other}" in text
    assert f'<p class="note">{cause}; to try it' in "".join(stored.page)
    assert "- broken by timm 1.0.30 → 1.0.31 alone" in markdown.of_comparison(comparison)


def test_a_case_that_is_worse_in_another_way_is_not_attributed(stored):
    comparison, _ = stored(of(CASE_ID, aspect="gradients"))
    assert not any(item.attribution for item in comparison.cases)


def test_runs_that_were_not_paired_are_not_attributed(stored):
    comparison, _ = stored(TIMM, of(OTHER), paired=False)
    assert not any(item.attribution for item in comparison.cases)
    assert decide(comparison).because == "2 broken"


def test_a_comparison_survives_the_way_to_another_process(stored):
    comparison, _ = stored(TIMM)
    assert load(dump(comparison)) == comparison
