"""``--replay RUN``: a stored run is judged again; nothing is compiled, torch is not needed."""

import json

from compilegate.records.checksum import seal
from compilegate.records.run import SCHEMA
from tests.integration.conftest import EXACT, FORWARD, SPEEDUP

#: Prints what pytest's reports hold of compilegate's when a session ends.
_HELD = """
def pytest_terminal_summary(terminalreporter):
    reports = (report for some in terminalreporter.stats.values() for report in some)
    names = {name for report in reports for name in vars(report) if "compilegate" in name}
    print("reports hold:", *sorted(names))
"""


def test_the_verdicts_are_the_same_and_nothing_is_started(compilegate, faulty, witness):
    path = str(faulty.run().path)
    session = compilegate(*EXACT, "--replay", path, "--save", "again", env=witness.env)
    assert session.status == faulty.status
    assert session.counts == faulty.counts
    again = session.run("again")
    assert again.verdicts == faulty.run().verdicts
    assert again.closing is not None
    assert witness.seen == set()


def test_the_stored_run_is_not_touched_and_no_other_is_written(compilegate, stored, runs):
    before = stored("sound").read_text()
    assert compilegate(*EXACT, "--replay", "stored").status == 0
    assert [path.name for path in runs.iterdir()] == ["stored.jsonl"]
    assert (runs / "stored.jsonl").read_text() == before


def test_other_budgets_give_other_verdicts(compilegate, stored, write):
    stored("recompiles")
    assert compilegate(*EXACT, "--replay", "stored").counts == {"failed": 1, "passed": 4}
    mine = write("mine.toml", '[[budget]]\nmodel = "recompiles"\nrecompiles = 4\n')
    assert compilegate(*EXACT, "--replay", "stored", "--budgets", mine).counts == {"passed": 5}


def test_models_and_cases_narrow_a_replay(compilegate, stored):
    stored("sound", "breaks")
    for narrow in (("--models", "sound"), ("--cases", "sound-*"), ("-k", "sound")):
        session = compilegate(*EXACT, "--replay", "stored", *narrow)
        assert session.counts["passed"] == 5, narrow
        assert session.counts.keys() <= {"passed", "deselected"}, narrow


def test_an_aspect_that_a_run_did_not_measure_is_skipped(compilegate, stored):
    stored("sound")
    session = compilegate(FORWARD, SPEEDUP, "--replay", "stored", "-rs")
    assert "AssertionError" not in session.output
    assert session.status == 0, session.output
    assert session.counts == {"passed": 1, "skipped": 1}


def test_a_truncated_run_is_judged_as_far_as_it_goes_and_reported(compilegate, stored):
    path = stored("sound", "unbroken")
    text = path.read_text()
    cut = text.index("unbroken-cpu", text.index('"record":"observation","case":"unbroken'))
    path.write_text(text[: cut + 200])
    session = compilegate(*EXACT, "--replay", "stored", "--save", "again")
    assert session.status == 2, session.output
    assert session.counts == {"passed": 5}
    assert "its last line is incomplete and was dropped" in session.output
    assert "2 cases, none failed, 1 not observed" in session.output
    assert "1 of 2 cases were not observed, and its last line was cut short; to continue it" in (
        session.output
    )
    again = session.run("again")
    assert again.missing == ["unbroken-cpu-infer-f32-default-static"]
    assert again.closing is None
    alone = compilegate(*EXACT, "--replay", "stored", "--models", "sound")
    assert alone.status == 0, alone.output
    assert "1 case, none failed" in alone.output
    assert "not observed" not in alone.output


def test_a_run_without_a_selected_case_is_refused(compilegate, stored):
    stored("sound")
    session = compilegate(*EXACT, "--replay", "stored", "-m", "gpu")
    assert session.status == 4
    assert "holds no observation of the selected cases" in session.output


def test_an_unknown_run_suggests_the_nearest(compilegate, stored):
    stored("sound")
    session = compilegate("--replay", "stord")
    assert session.status == 4
    assert "no run 'stord' in" in session.output
    assert "did you mean 'stored'?" in session.output


def test_a_file_that_is_not_a_run_is_refused_with_its_line(compilegate, stored):
    path = stored("sound")
    path.write_text(path.read_text().replace('"record":"observation"', '"record":"sighting"'))
    session = compilegate("--replay", "stored")
    assert session.status == 2
    assert "stored.jsonl:2: not a record of a run" in session.output


def test_a_run_of_a_newer_format_asks_for_a_newer_compilegate(compilegate, stored):
    path = stored("sound")
    header, rest = path.read_text().split("\n", 1)
    newer = json.loads(header) | {"schema": SCHEMA + 1}
    del newer["crc32"]
    path.write_text(f"{seal(json.dumps(newer))}\n{rest}")
    session = compilegate("--replay", "stored")
    assert session.status == 2
    assert "update compilegate" in session.output


def test_reports_keep_verdicts_and_not_what_was_observed(compilegate, stored, tmp_path):
    stored("sound")
    (tmp_path / "held.py").write_text(_HELD)
    env = {"PYTHONPATH": str(tmp_path)}
    session = compilegate(FORWARD, "--replay", "stored", "--save", "a", "-p", "held", env=env)
    held = next(line for line in session.output.splitlines() if line.startswith("reports hold:"))
    assert "compilegate_verdict" in held
    assert "compilegate_records" not in held
    assert session.run("a").observations
