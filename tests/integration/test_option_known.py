"""``--known FILE``: culprits have the names that a team gives them; idle entries are reported."""

from tests.integration.conftest import EXACT, faulty_case

KNOWN = """
[[known]]
issue = "TICKET-1"
aspect = "graph_breaks"
match = "graph_break"

[[known]]
issue = "TICKET-2"
cases = "sound-*"
"""


def test_a_known_culprit_is_named_and_an_entry_without_one_is_reported(compilegate, stored, write):
    stored("sound", "breaks", "scale_is_off")
    session = compilegate(*EXACT, "--replay", "stored", "--known", write("known.toml", KNOWN))
    assert session.status == 1
    assert "2 culprits in 2 cases:" in session.output
    (line,) = [x for x in session.output.splitlines() if x.startswith(f"  {faulty_case('breaks')}")]
    assert line.startswith(f"  {faulty_case('breaks')}: [known: TICKET-1] graph break: ")
    assert "unused known culprit: " in session.output
    assert "known.toml:7: names no failure of 1 case that it is about" in session.output


def test_a_mistake_in_the_file_is_a_usage_error(compilegate, stored, write):
    stored("sound")
    wrong = write("known.toml", "[[known]]\nissue = 'a'\naspect = 'foward'")
    session = compilegate(*EXACT, "--replay", "stored", "--known", wrong)
    assert session.status == 4
    assert "known.toml:1: unknown aspect 'foward'; did you mean 'forward'?" in session.output
