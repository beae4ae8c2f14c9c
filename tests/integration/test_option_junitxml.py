"""``--junitxml FILE``: a case of a suite is a test case, its message is the verdict's summary."""

from xml.etree import ElementTree

from tests.integration.conftest import EXACT, faulty_case


def test_verdicts_are_test_cases_with_their_messages(compilegate, stored, tmp_path):
    stored("sound", "breaks", "only_zeros")
    session = compilegate(*EXACT, "--replay", "stored", "--junitxml", str(tmp_path / "junit.xml"))
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    (suite,) = root.iter("testsuite")
    counts = {name: int(suite.attrib[name]) for name in ("tests", "failures", "skipped", "errors")}
    assert counts == {"tests": 15, "failures": 1, "skipped": 1, "errors": 0}
    assert session.counts == {"passed": 13, "failed": 1, "inconclusive": 1}
    found = {case.attrib["name"]: case for case in root.iter("testcase")}
    failure = found[f"test_no_unbudgeted_graph_break[{faulty_case('breaks')}]"].find("failure")
    assert failure is not None
    assert "1 graph break not budgeted" in failure.attrib["message"]
    skipped = found[f"test_outputs_match_eager[{faulty_case('only_zeros')}]"].find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"].startswith("blind: ")
    properties = {found.attrib["name"]: found.attrib["value"] for found in root.iter("property")}
    assert properties["culprits"] == "1 culprit in 1 case"
    assert properties["culprit 1"].startswith("graph_breaks: graph break: ")
    assert properties["culprit 1"].endswith(f" ({faulty_case('breaks')})")
