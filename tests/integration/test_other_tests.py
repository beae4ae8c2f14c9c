"""Sessions that do not collect the suites go on as if the plugin were not there."""

import sys

from tests.integration.conftest import run_to_its_end

THEIRS = """\
import pytest


@pytest.mark.parametrize("case", ["lower", "upper"])
def test_something_else(case):
    assert case
"""


def test_a_parameter_named_case_is_theirs(write, runs):
    words = [sys.executable, "-m", "pytest", "-p", "compilegate.plugin", "-p", "no:cacheprovider"]
    session = run_to_its_end([*words, write("test_theirs.py", THEIRS)], None, runs)
    assert session.status == 0, session.output
    assert session.counts == {"passed": 2}
    assert "compilegate" not in session.output.replace(str(runs), "")
