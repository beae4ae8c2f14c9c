"""A report that names no submodule refers to another of the same model that does."""

import re
from pathlib import Path

import pytest

from compilegate.judging import budgets_toml
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.runs import files
from compilegate.triage import folders
from compilegate.triage.findings import Findings
from compilegate.triage.report import other_reports
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.place import Place
from compilegate.triage.search.seen import Seen
from tests.unit.failing import A, wrong
from tests.unit.triage.test_titles import suspect_of

RUN = Path(__file__).parents[2] / "data" / "h200-autotuned.jsonl.gz"
WHOLE = Place(tried={"block": Seen("good")}, is_complete=True)
BLOCK = Place("block", "Block", text="wrong", tried={"block": Seen("bad")}, is_complete=True)
INNER = Place("block.act", "GELU", text="wrong", tried={"block": Seen("bad")}, is_complete=True)
OTHER = Place("head", "Linear", text="wrong", tried={"head": Seen("bad")}, is_complete=True)
DISSECTED = {"without": {"block.act": Seen("bad")}, "is_dissected": True}
NAMES = re.compile(r"^`(\S+)`, on another failure of this model \(\w+\), names `(.+)` \(`", re.M)


@pytest.fixture
def reports(monkeypatch, tmp_path):
    """Returns what the reports of culprits of one model refer to, given where these are."""

    def triage(*places, is_one_cause=False):
        left = iter(places)

        class Investigated:
            def __init__(self, *_, **__):
                self.findings = Findings(place=next(left))

            def run(self):
                self.findings.stage = Stage("inductor", {"inductor": Seen("bad")})

        class Cause:
            def is_that_of(self, _):
                return is_one_cause

        monkeypatch.setattr(folders, "Investigation", Investigated)
        monkeypatch.setattr(folders, "cause_of", lambda *_: Cause())
        budgets = budgets_toml.read([], sorted(SHIPPED_BUDGETS.glob("*.toml")))
        run = files.read(RUN)
        found = folders.suspects(run, budgets)[:1] * len(places)
        made = [*folders.triage(run, found, tmp_path, minutes=1, say=lambda _: None)]
        referred = []
        for one in made:
            text = (one.folder / "report.md").read_text()
            referred.append([(one.folder / at, path) for at, path in NAMES.findall(text)])
        assert all(at.resolve().exists() for each in referred for at, _ in each)
        return [[path for _, path in each] for each in referred]

    return triage


@pytest.mark.parametrize("is_one_cause", [False, True])
@pytest.mark.parametrize(
    ("places", "referred"),
    [
        ((WHOLE, BLOCK), [["block"], []]),
        ((BLOCK, WHOLE), [[], ["block"]]),
        ((WHOLE, BLOCK, OTHER), [["block", "head"], [], []]),
        ((WHOLE, WHOLE), [[], []]),
        ((BLOCK, OTHER), [[], []]),
        ((Place("block", "Block", text="wrong", tried=BLOCK.tried, **DISSECTED), INNER, OTHER),
         [["block.act"], [], []]),
    ],
)  # fmt: skip
def test_each_refers_to_those_that_name_a_submodule_of_its_own(
    reports, places, referred, is_one_cause
):
    assert reports(*places, is_one_cause=is_one_cause) == referred


@pytest.mark.parametrize(("case", "count"), [(A, 1), ("two-cpu-infer-f32-default-static", 0)])
def test_a_report_of_another_model_is_none_of_its_own(case, count):
    own = (Path("1"), suspect_of(wrong(A)), Findings(place=WHOLE))
    other = (Path("2"), suspect_of(wrong(case)), Findings(place=BLOCK))
    assert len([*other_reports.naming(own, [own, other])]) == count
