"""pytest's own ``--lf``, ``--ff``, ``--sw`` and ``-k``: they see cases as any other tests."""

from tests.integration.conftest import EXACT, ZOOS, faulty_case

REPLAY = (*EXACT, "--replay", "stored")


def test_lf_judges_again_only_what_failed(compilegate, stored):
    stored("sound", "breaks", "recompiles")
    assert compilegate(*REPLAY, cache=True).counts == {"failed": 2, "passed": 13}
    again = compilegate(*REPLAY, "--lf", cache=True).counts
    assert again.pop("deselected", 0) <= 13
    assert again == {"failed": 2}


def test_ff_reorders_and_observes_no_case_twice(compilegate, stored):
    stored("sound", "breaks")
    compilegate(*REPLAY, cache=True)
    cases = (faulty_case("sound"), faulty_case("breaks"))
    chosen = [word for case in cases for word in ("--cases", case)]
    (path,) = compilegate(*REPLAY).runs.iterdir()
    path.unlink()

    zoo = ("--zoo", str(ZOOS / "faulty.py"))
    session = compilegate(*EXACT, *zoo, *chosen, "--ff", "-v", cache=True)
    assert session.counts == {"failed": 1, "passed": 9}
    first = next(line for line in session.output.splitlines() if "::" in line)
    assert f"test_no_unbudgeted_graph_break[{cases[1]}] FAILED" in first
    assert sorted(session.observed) == sorted(cases)
    assert session.run().closing is not None


def test_sw_stops_at_a_failure_and_continues_there(compilegate, stored):
    stored("breaks", "recompiles")
    first = compilegate(*REPLAY, "--sw", cache=True)
    assert first.counts["failed"] == 1
    assert "test_no_unbudgeted_graph_break" in first.output
    again = compilegate(*REPLAY, "--sw", cache=True)
    assert again.counts["failed"] == 1
    assert again.counts["deselected"] == first.counts["passed"]


def test_k_selects_by_id_and_by_claim(compilegate, stored):
    stored("sound", "breaks")
    assert compilegate(*REPLAY, "-k", "sound").counts == {"passed": 5, "deselected": 5}
    session = compilegate(*REPLAY, "-k", "breaks and outputs")
    assert session.counts == {"passed": 1, "deselected": 9}


def test_pytest_counts_no_test_without_cases(compilegate, stored):
    stored("sound")
    session = compilegate(*REPLAY, "-k", "nothing_of_this_name")
    assert session.counts == {"deselected": 5}
    assert "collected 5 items / 5 deselected / 0 selected" in session.output
