"""The page of a run links the reports that its triage has written."""

import shutil
from pathlib import Path

import pytest

from compilegate import __main__
from compilegate.reports import culprit_groups
from compilegate.runs.archive import Archive
from compilegate.triage import found_reports
from compilegate.triage.causes import known_entries

RUN = Path(__file__).parents[1] / "data" / "h200-autotuned.jsonl.gz"


@pytest.mark.parametrize(("of", "links"), [("this run", 1), ("another run", 0)])
def test_the_page_links_the_reports_of_the_triage_of_its_run(of, links, tmp_path, monkeypatch):
    (tmp_path / ".runs").mkdir()
    run = tmp_path / ".runs" / "red.jsonl.gz"
    shutil.copy(RUN, run)
    with Archive(run) as archive:
        culprit = next(c for c in culprit_groups.of_run(archive) if not c.is_expected)
        created = archive.header.created if of == "this run" else "2001-01-01T00:00:00"
    folder = tmp_path / ".triage" / "red" / "1-m #1"
    folder.mkdir(parents=True)
    (folder / "report.md").touch()
    entries = known_entries(culprit, "triage found it", "1-m #1/report.md")
    text = found_reports.head(created) + "".join(entries)
    (folder.parent / found_reports.FILE).write_text(text)
    (tmp_path / "pages").mkdir()
    monkeypatch.chdir(tmp_path)
    __main__.main(["html", "red", "-o", "pages/red.html"])
    page = (tmp_path / "pages" / "red.html").read_text()
    assert page.count('href="../.triage/red/1-m%20%231/report.md"') == links
    assert page.count("report of the triage") == links
