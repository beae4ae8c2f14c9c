"""The page and the job summary of a run know what its triage has found."""

import os
import shutil
from pathlib import Path

import pytest

from compilegate import __main__
from compilegate.reports import culprit_groups
from compilegate.runs.archive import Archive
from compilegate.triage.report import found_reports
from compilegate.triage.steps.causes import known_entries

RUN = Path(__file__).parents[2] / "data" / "h200-autotuned.jsonl.gz"


@pytest.fixture(params=["this run", "another run"])
def triaged(request, tmp_path, monkeypatch):
    """A folder with a run and the triage of a run; return whether that is the run."""
    (tmp_path / ".runs").mkdir()
    run = tmp_path / ".runs" / "red.jsonl.gz"
    shutil.copy(RUN, run)
    with Archive(run) as archive:
        culprit = next(c for c in culprit_groups.of_run(archive) if not c.is_expected)
        created = archive.header.created if request.param == "this run" else "2001-01-01T00:00:00"
    folder = tmp_path / ".triage" / "red" / "1-m #1"
    folder.mkdir(parents=True)
    (folder / "report.md").touch()
    entries = known_entries(culprit, "triage found it", "1-m #1/report.md")
    text = found_reports.head(created) + "".join(entries)
    (folder.parent / found_reports.FILE).write_text(text)
    (tmp_path / "pages").mkdir()
    monkeypatch.chdir(tmp_path)
    return request.param == "this run"


def test_the_page_links_the_reports_of_the_triage_of_its_run(triaged):
    __main__.main(["html", "red", "-o", "pages/red.html"])
    page = Path("pages/red.html").read_text()
    assert page.count('href="../.triage/red/1-m%20%231/report.md"') == triaged
    assert page.count("report of the triage") == triaged


def test_the_job_summary_names_what_the_triage_found_and_issues_keep_their_keys(triaged):
    words = ["markdown", "red", "-o", "red.md", "--issues", "issues.json"]
    __main__.main(words)
    assert ("triage found it" in Path("red.md").read_text()) is triaged
    assert "triage found it" not in Path("issues.json").read_text()


@pytest.mark.parametrize("later", [1, 2])
def test_a_later_triage_of_one_case_does_not_hide_one_that_joins_two(later, tmp_path, monkeypatch):
    run = tmp_path / ".runs" / "red.jsonl.gz"
    run.parent.mkdir()
    shutil.copy(RUN.with_name("h200-standard-4.jsonl.gz"), run)
    with Archive(run) as archive:
        (culprit,) = (c for c in culprit_groups.of_run(archive) if not c.is_expected)
        head = found_reports.head(archive.header.created)
    assert len(culprit.cases) == 2
    for age, (name, cases) in enumerate((("earlier", 2), ("later", later))):
        listed = culprit.cases[:cases]
        file = tmp_path / ".triage" / f"red-{name}" / found_reports.FILE
        file.parent.mkdir(parents=True)
        file.write_text(f'{head}[[known]]\nissue = "found {name}"\ncases = {listed}\n')
        os.utime(file, (age, age))
    monkeypatch.chdir(tmp_path)
    __main__.main(["markdown", "red", "-o", "red.md"])
    text = Path("red.md").read_text()
    assert ("found later" in text) is (later == 2)
    assert ("found earlier" in text) is (later == 1)
