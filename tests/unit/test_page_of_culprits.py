"""The page of a run shows all culprits: the first at once, the others folded."""

from pathlib import Path

import pytest

from compilegate.reports import culprit_groups, html
from compilegate.runs.archive import Archive

RUN = Path(__file__).parents[1] / "data" / "h200-known-bugs.jsonl.gz"


@pytest.mark.parametrize("first", [1, 100])
def test_a_page_shows_every_culprit(monkeypatch, first):
    monkeypatch.setattr(html, "FIRST", first)
    with Archive(RUN) as run:
        page = "".join(html.of_run(run))
        culprits = culprit_groups.of_run(run, ())
    shown = [*culprit_groups.groups(culprits), *culprit_groups.groups(culprits, expected=True)]
    assert len(shown) > 1
    assert page.count("cases and aspects") == len(shown)
    assert (f"and {len(shown) - first} more" in page) is (first < len(shown))
