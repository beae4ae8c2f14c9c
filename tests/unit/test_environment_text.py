"""The differences of two environments in reports: grouped, all of them, 80 columns wide."""

from dataclasses import replace

import pytest

from compilegate.reports import environment_text, html, markdown
from compilegate.reports.comparison_text import Layout, evidence_lines
from compilegate.runs.archive import Archive
from compilegate.upgrade.comparison import Comparison
from tests.unit.making import make_environment, make_header, make_inventory, make_observation
from tests.unit.runs import compare_files, write_run

OTHER = make_environment(
    python="3.13.0",
    inventory=make_inventory(
        libraries={**make_inventory().libraries, "oneDNN": "3.9"},
        variables={"OMP_NUM_THREADS": "8", "TORCH_OPTS": " ".join(["+dynamo"] * 20)},
        configuration={"inductor.freezing": "True"},
        distributions={**make_inventory().distributions, "pip": "26.0"},
        machine={"governor": "powersave", "kernel": "6.8"},
    ),
)
TEXT = """\
the environments differ in:
  libraries      oneDNN 3.7.1 → 3.9
  software       python 3.12.1 → 3.13.0
  configuration  inductor.freezing default → True
  variables      OMP_NUM_THREADS 4 → 8
                 TORCH_OPTS unset → +dynamo +dynamo +dynamo +dynamo +dynamo
                   +dynamo +dynamo +dynamo +dynamo +dynamo +dynamo +dynamo
                   +dynamo +dynamo +dynamo +dynamo +dynamo +dynamo +dynamo
                   +dynamo
and in what does not decide:
  software       pip 25.0 → 26.0
  machine        governor performance → powersave"""


def comparison(now):
    """Two runs without cases, the first of which has the healthy environment."""
    headers = (make_header((), environment=side) for side in (make_environment(), now))
    return Comparison(*headers, ())


def test_all_shows_every_difference_within_80_columns():
    shown = list(evidence_lines(comparison(OTHER), Layout(everything=True, width=80)))
    assert TEXT in "\n".join(line for line in shown if line)
    assert max(map(len, shown)) <= 80


def test_without_all_the_differences_stay_in_the_headline():
    shown = "\n".join(evidence_lines(comparison(OTHER), Layout(width=80)))
    assert "environments differ" not in shown


@pytest.mark.parametrize("now", [make_environment(), make_environment(versions={"torch": "3"})])
def test_equal_environments_show_nothing(now):
    assert environment_text.groups(comparison(now)) == []


def test_markdown_folds_the_differences():
    text = markdown.of_comparison(comparison(OTHER))
    assert "<summary>The environments differ</summary>" in text
    assert "- libraries: oneDNN 3.7.1 → 3.9" in text
    assert "- software (does not decide): pip 25.0 → 26.0" in text
    assert "environments differ" not in markdown.of_comparison(comparison(make_environment()))


def test_the_page_shows_the_differences_and_each_environment(tmp_path):
    old = replace(make_environment(), python="3.11.0")
    before = write_run(tmp_path / "a.jsonl", make_observation(), environment=old)
    now = write_run(tmp_path / "b.jsonl", make_observation(), environment=OTHER)
    with Archive(before) as a, Archive(now) as b:
        page = "".join(html.of_comparison(compare_files(before, now), a, b))
        alone = "".join(html.of_run(b))
    assert "<summary>The environments differ</summary>" in page
    assert "oneDNN 3.7.1 → 3.9" in page
    assert "pip 25.0 → 26.0" in page
    assert "oneDNN 3.9, OpenMP libgomp.so.1 d6e0f1bd, glibc 2.39" in alone
    assert "inductor.freezing True" in alone
    assert "The environments differ" not in alone


def test_a_run_of_an_earlier_version_is_shown_without_what_it_lacks(tmp_path):
    path = write_run(
        tmp_path / "a.jsonl", make_observation(), environment=make_environment(inventory=None)
    )
    with Archive(path) as run:
        page = "".join(html.of_run(run))
    assert "<dt>versions</dt>" in page
    assert "<dt>libraries</dt>" not in page
