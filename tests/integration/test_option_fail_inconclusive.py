"""``--fail-inconclusive``: a verdict that cannot be given is a failure only for the strict."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from compilegate.records.observation import Observation
from compilegate.records.performance import Timing
from tests.integration.conftest import SPEEDUP

#: Sixteen rounds of one millisecond; compiled ones take this many.
WANTED = '[[budget]]\nmodel = "sound"\nmin_speedup = 1.5\n'
STRADDLES, FAST, SLOW = (0.5, 0.9), (0.5, 0.5), (0.9, 0.9)


@pytest.fixture
def replay(compilegate, stored, write):
    """Judges the speed of a run whose rounds alternate between two ratios."""

    def timed(ratios, *arguments):
        def with_timing(record):
            if not isinstance(record, Observation):
                return record
            compiled = tuple(1e6 * ratio for ratio in ratios * 8)
            timing = Timing(eager_ns=(1e6,) * 16, compiled_ns=compiled, iterations=1)
            return replace(record, timing=timing, wants=("capture", "time"))

        stored("sound", changed=with_timing)
        mine = write("mine.toml", WANTED)
        return compilegate(SPEEDUP, "--replay", "stored", "--budgets", mine, *arguments)

    return timed


def test_an_interval_that_straddles_is_inconclusive_and_no_failure(replay, tmp_path):
    session = replay(STRADDLES, "--junitxml", str(tmp_path / "junit.xml"), "-v")
    assert session.status == 0, session.output
    assert session.counts == {"inconclusive": 1}
    assert "INCONCLUSIVE" in session.output
    (skipped,) = ElementTree.parse(tmp_path / "junit.xml").iter("skipped")
    assert "at least 1.5× wanted: the interval straddles it" in skipped.attrib["message"]


def test_its_letter_is_a_question_mark(replay):
    assert "[1/1] ?" in replay(STRADDLES).output
    assert "?" in replay(STRADDLES, "-q").output.splitlines()[0]


def test_with_the_option_it_is_a_failure(replay):
    session = replay(STRADDLES, "--fail-inconclusive")
    assert session.status == 1
    assert session.counts == {"failed": 1}
    assert "inconclusive: 1.4" in session.output
    assert session.output.count("reproduce: ") == 1


def test_the_option_does_not_change_conclusive_verdicts(replay):
    assert replay(FAST, "--fail-inconclusive").counts == {"passed": 1}
    assert replay(SLOW, "--fail-inconclusive").counts == {"failed": 1}
    assert replay(SLOW).counts == {"failed": 1}
