"""``--budgets FILE``: layered over the shipped ones; mistakes are refused before anything runs."""

import pytest

from tests.integration.conftest import BREAKS, FORWARD, MATVEC

ALLOWS = '[[budget]]\nmodel = "breaks"\nmax_graph_breaks = 1\n'
FORBIDS = ALLOWS.replace("1", "0")


def test_later_files_win_over_earlier_ones_and_all_over_ini_settings(compilegate, stored, write):
    stored("breaks")
    allows, forbids = write("allows.toml", ALLOWS), write("forbids.toml", FORBIDS)
    judged = {
        given: compilegate(BREAKS, "--replay", "stored", *given).status
        for given in (
            (),
            ("--budgets", allows),
            ("--budgets", allows, "--budgets", forbids),
            ("-o", f"budgets={forbids}", "--budgets", allows),
        )
    }
    assert list(judged.values()) == [1, 0, 1, 0]


def test_a_break_is_allowed_by_reason_and_place(compilegate, stored, write):
    stored("breaks", "prints")
    known = '[[budget]]\ngraph_breaks = [{ reason = "graph_break()", place = "faulty.py" }]\n'
    session = compilegate(BREAKS, "--replay", "stored", "--budgets", write("mine.toml", known))
    assert session.counts == {"failed": 1, "passed": 1}
    assert "test_no_unbudgeted_graph_break[prints-" in session.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n[[budget]\n", "line 2"),
        ("[[budget]]\nmax_graph_brakes = 1\n", "mine.toml:2: unknown key 'max_graph_brakes'; did"),
        ("[[budget]]\n\nmin_speedup = -1\n", "mine.toml:3: min_speedup = -1: expected a number"),
        ('[[budget]]\nrecompiles = "1"\n', "mine.toml:2: recompiles = '1': expected a whole"),
        ('[[budget]]\ndevice = "cpo"\n', "mine.toml:2: unknown device 'cpo'; did you mean 'cpu'?"),
        ("[[budgets]]\nrecompiles = 1\n", "unknown table 'budgets'; did you mean 'budget'?"),
        ("[budget]\nrecompiles = 1\n", "write [[budget]] in double brackets"),
        ('[[expected_failure]]\naspect = "forward"\n', "mine.toml:1: an expected failure needs"),
        (
            '[[expected_failure]]\nreason = "?"\naspect = "foward"\n',
            "mine.toml:3: unknown aspect 'foward'; did you mean 'forward'?",
        ),
        (
            '[[budget]]\nmodel = "matv*"\nrecompiles = 1\n'
            '[[budget]]\nmodel = "*vec"\nrecompiles = 2\n',
            "mine.toml:4: recompiles ties with",
        ),
    ],
    ids=lambda value: None if "\n" in value else value,
)
def test_a_mistake_is_refused_with_file_and_line(compilegate, write, witness, text, message):
    mine = write("mine.toml", text)
    session = compilegate("--models", "matvec", "-m", "cpu", "--budgets", mine, env=witness.env)
    assert session.status == 4
    assert mine in session.output
    assert message in session.output
    assert witness.seen == set()


def test_a_tie_names_both_lines_and_the_way_out(compilegate, write):
    tie = "[[budget]]\nrecompiles = 1\n\n[[budget]]\nrecompiles = 2\n"
    session = compilegate("--models", "matvec", "-m", "cpu", "--budgets", write("mine.toml", tie))
    assert session.status == 4
    assert "mine.toml:4: recompiles ties with" in session.output
    assert "mine.toml:1 for matvec-cpu-" in session.output
    assert "name one more axis" in session.output


def test_a_missing_file_is_refused(compilegate, tmp_path):
    session = compilegate("--cases", MATVEC, "--budgets", str(tmp_path / "missing.toml"))
    assert session.status == 4
    assert "missing.toml: No such file or directory" in session.output


def test_a_binary_file_is_refused_by_name(compilegate, tmp_path):
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe[[budget]]")
    session = compilegate("--cases", MATVEC, "--budgets", str(tmp_path / "mine.toml"))
    assert session.status == 4
    assert "mine.toml" in session.output


def test_an_entry_that_matches_no_case_is_reported(compilegate, write):
    entries = '[[budget]]\nmodel = "matvec"\nrecompiles = 9\n\n[[budget]]\nmodel = "matvek"\n'
    # Unfiltered, and over soon: the first case is killed at once.
    session = compilegate(
        *(FORWARD, "-m", "cpu", "-x", "--case-timeout", "0.01"),
        *("--budgets", write("mine.toml", entries)),
    )
    assert "mine.toml:5: matches no case: {'model': 'matvek'}" in session.output
    assert "mine.toml:1" not in session.output
