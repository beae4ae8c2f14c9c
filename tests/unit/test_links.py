"""Addresses in what a page and a job summary say of culprits are links, and nothing else is."""

import re

import pytest
from markupsafe import escape

from compilegate.culprits.known import Known
from compilegate.output.addresses import ADDRESS
from compilegate.reports import html, markdown
from compilegate.runs.archive import Archive
from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from tests.unit.failing import A, wrong
from tests.unit.making import make_environment, make_failed_observation, make_verdict
from tests.unit.runs import write_run
from tests.unit.triage.test_workarounds import suspect_of

ISSUE = "https://github.com/pytorch/pytorch/issues/1"
LINK = re.compile(r'<a href="(https?://[^"<>\s]*)" rel="noopener noreferrer">([^<>]*)</a>')
HOSTILE = (
    "javascript:alert(1) [x](javascript:alert(1)) <a href='https://h.example/'> data:text/html,x "
    "https://h.example/\"onclick='x' https://h.example/<script> https://h.example/`|* https://"
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (f"[known: {ISSUE}; workaround: x]", ISSUE),
        (f"a reason ({ISSUE}): 3 breaks", ISSUE),
        (f"see {ISSUE}.", ISSUE),
        ("http://jira/browse/AB-1, too", "http://jira/browse/AB-1"),
        ("https://h.example:8080?a=b&c=%20#d_e", "https://h.example:8080?a=b&c=%20#d_e"),
        ("javascript:alert(1)", ""),
        ("https://user:pw@h.example/x", ""),
        ("https://\u0430pple.example/x", ""),
        ("backend='http://f' raised", ""),
        ("xhttps://h.example/x", ""),
    ],
)
def test_an_address_ends_where_its_sentence_goes_on(text, address):
    found = ADDRESS.search(text)
    assert (found[0] if found else "") == address


def test_only_addresses_become_links_and_all_else_stays_escaped():
    for text in (markdown.with_links(HOSTILE), html.with_links(HOSTILE)):
        targets = [found[0] for found in LINK.findall(text)]
        assert targets == ["https://h.example/"] * 4
        assert not re.search("[<>]", LINK.sub("", text))
    assert html.with_links("a < b_c") == escape("a < b_c")
    assert markdown.with_links("a < b *c*") == markdown.escape("a < b *c*")


def test_the_issue_of_a_known_culprit_is_a_link_on_page_and_in_job_summary(tmp_path):
    path = write_run(
        tmp_path / "a.jsonl",
        make_failed_observation("raised", A, message=HOSTILE),
        make_verdict("failed", case=A, summary=f"raised: {HOSTILE}"),
        environment=make_environment(),
    )
    entries = [Known(issue=ISSUE, workaround="torch.compiler.disable")]
    with Archive(path) as run:
        page, summary = "".join(html.of_run(run, entries)), markdown.of_run(run, known=entries)
    for text in (page, summary):
        assert f'<a href="{ISSUE}" rel=' in text
        assert 'href="javascript' not in text
    assert f">{markdown.escape(ISSUE)}</a>" in summary
    (row,) = [line for line in summary.splitlines() if ISSUE in line]
    assert row.count("|") == 4


def test_a_report_links_the_issue_and_keeps_what_the_team_says_to_the_team():
    suspect = suspect_of(wrong(A))
    suspect.culprit.known += [f"{ISSUE}; workaround: torch.compiler.disable", "AB-1; workaround: x"]
    text = issue.text(suspect, Findings(), make_environment(), "observe", "")
    links, _, team = text.partition("## Links\n\n")[2].partition("## For the team")
    assert links.split("\n\n")[0].splitlines() == [f"- {ISSUE}", "- AB-1"]
    assert f"Known as {ISSUE}: workaround: torch.compiler.disable.\n" in team
    assert "Known as AB-1: workaround: x.\n" in team
    suspect.culprit.known[:] = [ISSUE]
    text = issue.text(suspect, Findings(), make_environment(), "observe", "")
    assert f"- {ISSUE}\n" in text
    assert "## For the team" not in text
