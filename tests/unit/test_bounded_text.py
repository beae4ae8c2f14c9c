"""Texts are bounded: head and tail stay, and the notice counts the bytes between them."""

import re
from dataclasses import replace

import pytest

from compilegate.records.bounded_text import LONGEST_LINE, LONGEST_TEXT, bounded, shortened
from compilegate.records.observation import Failure, Observation
from compilegate.records.run import encode
from compilegate.runs.reader import decode
from tests.unit.making import CASE_ID, make_header

NOTICE = re.compile(r"… ([\d,]+) bytes left out …")


def size(text):
    return len(text.encode())


def left_out(text):
    return sum(int(found.replace(",", "")) for found in NOTICE.findall(text))


def adds_up(cut, text):
    """Whether each byte is kept or counted. A notice on a line of its own has line ends."""
    kept = size(re.sub(r"\n?… [\d,]+ bytes left out …\n?", "", cut))
    return size(text) - kept - left_out(cut) in range((cut.count("\n") and 3) or 1)


@pytest.mark.parametrize("text", ["", "short", "ä" * (LONGEST_LINE // 2), "line\n" * 3_000])
def test_a_text_within_the_limits_stays_as_it_is(text):
    assert bounded(text) == text


@pytest.mark.parametrize("unit", ["x", "ä", "€", "😀"])
def test_a_line_keeps_its_head_and_tail_and_whole_characters(unit):
    text = "head " + unit * 1_000_000 + " tail"
    line = bounded(text)
    assert line.startswith(f"head {unit}")
    assert line.endswith(f"{unit} tail")
    assert 0.9 * LONGEST_LINE < size(line) <= LONGEST_LINE
    assert adds_up(line, text)
    assert "\ufffd" not in line


def test_a_text_of_many_lines_has_the_notice_on_a_line_of_its_own():
    text = "".join(f"line {number}\n" for number in range(500_000))
    cut = bounded(text)
    assert size(cut) <= LONGEST_TEXT
    (notice,) = (line for line in cut.splitlines() if "left out" in line)
    assert NOTICE.fullmatch(notice)
    assert adds_up(cut, text)
    assert cut.startswith("line 0\nline 1\n")
    assert cut.endswith("line 499999\n")


def test_a_long_line_among_others_is_cut_by_itself():
    text = "first\n" + "x" * 5_000_000 + "\nlast"
    cut = bounded(text)
    assert max(map(size, cut.splitlines())) <= LONGEST_LINE
    assert (cut[:6], cut[-5:]) == ("first\n", "\nlast")
    assert adds_up(cut, text)


@pytest.mark.parametrize(
    "text", ["x" * 10**6, "x\n" * 10**6, "x" * 3_000 + "\n" * 30_000 + "y" * 3_000]
)
def test_a_bounded_text_is_not_cut_again(text):
    assert bounded(bounded(text)) == bounded(text)


@pytest.mark.parametrize("most", range(300, 1_400, 30))
def test_a_text_that_is_cut_again_counts_all_that_was_left_out(most):
    text = "".join(f"{number} " for number in range(10_000))
    cut = shortened(shortened(text, 1_500), most)
    assert len(NOTICE.findall(cut)) == 1
    assert adds_up(cut, text)


@pytest.mark.parametrize(
    "escape", ["\x1b[38;5;196m", "\x1b]0;a title\x07", "\x1b]8;;https://x.org\x1b\\", "\x1bM"]
)
@pytest.mark.parametrize("shift", range(20))
def test_no_cut_lies_within_an_escape_sequence(escape, shift):
    cut = shortened("-" * shift + escape * 1_000, 400)
    assert re.fullmatch(rf"-*({re.escape(escape)})+… [\d,]+ bytes left out …({re.escape(escape)})+",
                        cut)  # fmt: skip


def test_what_a_model_writes_is_bounded_in_a_record_and_an_environment_is_not():
    long = "x" * 20_000_000
    failure = Failure(stage="eager", kind=long, message=long, traceback=f"{long}\n" * 3)
    record = Observation(case=CASE_ID, status="raised", failure=failure, spent_s={long: 1.0})
    line = encode(record)
    assert size(line) < 4 * LONGEST_LINE + LONGEST_TEXT
    assert encode(decode(line)) == line
    path = ":".join(["/opt/module/lib"] * 1_000)
    assert path in encode(replace(make_header(), arguments=(path,)))
