"""JUnit's report: the culprits of a session, and those that triage has joined since."""

from xml.etree import ElementTree

from _pytest.junitxml import LogXML

from compilegate.culprits.grouping import Failure, culprits
from compilegate.session.junit_properties import replace
from tests.unit.making import make_observation, make_verdict


def found_in(*models):
    cases = [f"{model}-cpu-infer-f32-default-static" for model in models]
    return culprits(
        Failure(make_observation(case=case), make_verdict("failed", case=case, summary="wrong"))
        for case in cases
    )


def properties_of(path):
    root = ElementTree.parse(path).getroot()
    return {found.attrib["name"]: found.attrib["value"] for found in root.iter("property")}


def test_culprits_that_triage_joins_replace_the_earlier_ones(tmp_path):
    path = tmp_path / "junit.xml"
    junit = LogXML(str(path), None)
    junit.add_global_property("runner", "gpu-7")
    junit.pytest_sessionstart()
    one, two = found_in("one", "two")
    for seen, counts in (
        ([one, two], "2 culprits in 2 cases"),
        ([one.joined(two)], "1 culprit in 2 cases"),
    ):
        replace(junit, "safe", seen)
        junit.pytest_sessionfinish()
        properties = properties_of(path)
        assert properties["runner"] == "gpu-7"
        assert properties["compilegate"] == "safe"
        assert properties["culprits"] == counts
        assert [*properties].count("compilegate") == 1
        assert len(properties) == 3 + len(seen)
