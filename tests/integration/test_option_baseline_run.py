"""``--baseline-run RUN``: every case is held against a stored run; nothing worse may come of it."""

from dataclasses import replace

import pytest

from compilegate.records.observation import Observation
from compilegate.records.run import Header
from compilegate.records.verdict import Verdict
from tests.integration.conftest import EXACT, FORWARD, faulty_case

UPGRADE = "suites/test_upgrade.py"
SOUND, BREAKS = faulty_case("sound"), faulty_case("breaks")


def of_older_torch(record):
    if isinstance(record, Header):
        versions = {**record.environment.versions, "torch": "2.8.1"}
        return replace(record, environment=replace(record.environment, versions=versions))
    return record


def unbroken(record):
    """The model that breaks the graph, before it did."""
    record = of_older_torch(record)
    if isinstance(record, Observation) and record.case == BREAKS:
        assert record.capture is not None
        return replace(record, capture=replace(record.capture, breaks=()))
    if isinstance(record, Verdict) and record.case == BREAKS:
        return replace(record, outcome="passed", summary="fine")
    return record


@pytest.fixture
def old_and_new(stored, runs):
    """Writes ``old``, the baseline, and ``stored``, the candidate."""

    def write(*models, changed=of_older_torch, now=lambda record: record, then=None):
        stored(*(then or models), changed=changed).rename(runs / "old.jsonl")
        return stored(*models, changed=now)

    return write


def held(compilegate, *arguments):
    return compilegate(*EXACT, UPGRADE, "--replay", "stored", "--baseline-run", "old", *arguments)


def test_the_same_is_safe_whatever_fails_in_both(compilegate, old_and_new):
    old_and_new("sound", "breaks")
    session = held(compilegate)
    assert "safe (2 cases)" in session.output
    assert f"test_no_unbudgeted_graph_break[{BREAKS}]" in session.output
    assert "FAILED suites/test_upgrade.py" not in session.output


def test_the_decision_is_the_first_line_of_the_summary(compilegate, old_and_new):
    old_and_new("sound", "breaks", changed=unbroken)
    session = held(compilegate)
    assert session.status == 1
    headings = [line for line in session.output.splitlines() if line.startswith("= compilegate:")]
    headings += [line for line in session.output.splitlines() if "= compilegate: torch" in line]
    assert "do not upgrade: 1 broken (2 cases)" in headings[0]
    assert "torch 2.8.1 → " in headings[0]
    assert f"test_nothing_is_worse_than_before[{BREAKS}]" in session.output


def test_the_other_way_round_it_is_fixed(compilegate, old_and_new):
    old_and_new("sound", "breaks", now=unbroken)
    session = held(compilegate)
    assert session.status == 0, session.output
    assert "safe (2 cases, 1 fixed)" in session.output


def test_a_case_that_vanished_fails(compilegate, old_and_new):
    old_and_new("sound", then=("sound", "breaks"))
    session = held(compilegate)
    assert session.status == 2
    assert f"test_no_case_vanished[{BREAKS}]" in session.output
    assert "cannot say: 1 gone" in session.output
    narrow = held(compilegate, "--models", "sound")
    assert narrow.status == 0, narrow.output
    assert "safe (1 case)" in narrow.output


def test_an_accepted_change_is_an_expected_failure(compilegate, old_and_new, write):
    old_and_new("sound", then=("sound", "breaks"))
    mine = '[[expected_failure]]\nmodel = "breaks"\naspect = "upgrade"\nreason = "taken out"\n'
    session = held(compilegate, "--budgets", write("mine.toml", mine))
    assert session.status == 0, session.output
    assert session.counts["xfailed"] == 1
    assert "safe (2 cases, 1 accepted)" in session.output


def test_cases_that_the_baseline_lacks_are_new(compilegate, old_and_new):
    old_and_new("sound", "unbroken", then=("sound",))
    session = held(compilegate)
    assert session.status == 0, session.output
    assert "safe (2 cases, 1 new)" in session.output


def test_verdicts_are_recorded_and_a_case_that_is_gone_is_not_planned(compilegate, old_and_new):
    old_and_new("sound", then=("sound", "breaks"))
    run = held(compilegate, "--save", "again").run("again")
    assert run.header.planned == (SOUND,)
    assert run.closing is not None
    assert run.verdicts[SOUND, "upgrade"].summary == "unchanged"
    assert run.verdicts[BREAKS, "upgrade"].summary.startswith("gone: ")


def test_several_workers_give_the_same_verdicts(compilegate, old_and_new):
    old_and_new("sound", "breaks", changed=unbroken)
    alone, together = held(compilegate), held(compilegate, "-n", "2")
    assert together.status == alone.status == 1
    assert together.counts == alone.counts
    assert "do not upgrade: 1 broken (2 cases)" in together.output


def test_without_it_nothing_is_collected(compilegate, stored):
    stored("sound")
    assert compilegate(UPGRADE, "--replay", "stored").status == 5


def test_without_its_suite_no_decision_is_shown(compilegate, old_and_new):
    old_and_new("sound", changed=unbroken)
    session = compilegate(FORWARD, "--replay", "stored", "--baseline-run", "old")
    assert session.status == 0
    assert "safe" not in session.output


@pytest.mark.parametrize("name", ["odl", "nothing"])
def test_a_missing_baseline_is_refused_in_one_sentence(compilegate, old_and_new, name):
    old_and_new("sound")
    session = compilegate(UPGRADE, "--replay", "stored", "--baseline-run", name)
    assert session.status == 4
    assert f"no run '{name}' in" in session.output


def test_an_incomplete_baseline_is_reported(compilegate, old_and_new, runs):
    old_and_new("sound", "unbroken")
    path = runs / "old.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"case":"unbroken' not in line and "closing" not in line]
    path.write_text("".join(kept))
    session = held(compilegate)
    assert "cannot say: 1 new, unbroken-cpu" in session.output
    assert "is incomplete: 1 of 2 cases were not observed" in session.output


def test_a_job_summary_and_annotations_are_made_on_github(compilegate, old_and_new, tmp_path):
    old_and_new("sound", "breaks", changed=unbroken)
    summary = tmp_path / "summary.md"
    summary.write_text("what was there\n")
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    words = (*EXACT, UPGRADE, "--replay", "stored", "--baseline-run", "old")
    session = compilegate(*words, env=env)
    text = summary.read_text()
    assert text.startswith("what was there\n")
    assert "## torch 2.8.1 → " in text
    assert "do not upgrade: 1 broken (2 cases)" in text
    assert "2 cases, 1 failed" in text
    assert f"::error title=compilegate%3A {BREAKS}::graph_breaks: graph break: " in session.output
    assert "::error" not in compilegate(*words).output
