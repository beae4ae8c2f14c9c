"""Of what a process printed, a report shows the error and the frames that are next to it."""

import pytest

from compilegate.culprits.grouping import culprits
from compilegate.processes.child_output import OBSERVING
from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.report.dumps import decisive
from compilegate.triage.search.suspect import Suspect
from tests.unit.failing import A, failures
from tests.unit.making import make_environment, make_failed_observation

FRAMES = [f'  File "torch/{number}.py", line {number}, in f{number}' for number in range(30)]
CODE = [line for frame in FRAMES for line in (frame, "    call()", "    ^^^^^^")]
RAISED = ["Traceback (most recent call last):", *CODE, "LoweringError: no loops", "second line"]
IDLE = ["Thread 0x02 (most recent call first):", *FRAMES[20:], ""]
DYING = ["Current thread 0x01 (most recent call first):", *FRAMES, ""]
ABORTED = ["Fatal Python error: Aborted", "", *IDLE, *DYING, "Extension modules: numpy"]
HANGS = ["Timeout (0:00:20)!", *IDLE, "Thread 0x01 (most recent call first):", *FRAMES]
WRONG = [*(f"line {number}" for number in range(60)), "compiled code is WRONG"]


def shown(lines):
    return [*decisive("\n".join(lines), "repro.log")]


def test_of_an_exception_its_text_and_the_innermost_frames_are_shown():
    seen = shown(["eager 1.0", *RAISED])
    assert seen[:3] == ["eager 1.0", RAISED[0], "… 78 lines left out: see repro.log …"]
    assert [line for line in seen if "File" in line] == FRAMES[-4:]
    assert seen[-2:] == RAISED[-2:]


@pytest.mark.parametrize("lines", [ABORTED, HANGS], ids=["a crash", "a hang"])
def test_of_a_process_that_died_or_hangs_one_stack_is_shown(lines):
    seen = shown(lines)
    assert seen[0] == lines[0]
    assert [line.split()[-5] for line in seen if "recent call first" in line] == ["0x01"]
    assert [line for line in seen if "File" in line] == FRAMES[:8]
    assert sum("left out: see repro.log" in line for line in seen) == 2


def test_of_a_hang_the_thread_is_shown_that_observes_the_case_and_the_code_of_the_user():
    mine = '  File "/srv/team/acme/ops.py", line 41 in _'
    outer = mine.replace("ops", "nets")
    head = f"Thread 0x01 (most recent call first), {OBSERVING}:"
    seen = shown([head, mine, *FRAMES[:18], outer, *IDLE])
    assert seen[:2] == [head, mine]
    assert outer in seen
    assert FRAMES[6] in seen
    assert FRAMES[7] not in seen
    assert IDLE[0] not in seen


def test_of_an_exception_in_dynamo_the_code_of_the_user_is_shown():
    """Dynamo interprets that code, so no frame of the stack has it."""
    mine = ['  File "/srv/team/net.py", line 3, in forward', "    return fetch(x)", "      ~~~^^^"]
    other = ['  File "/srv/env/lib/python3.11/site-packages/torch/x.py", line 1, in f', "    g()"]
    cut = [RAISED[0], *CODE[:40], "… 168 bytes left out …", "^^^^", *RAISED[41:]]
    seen = shown([*cut, *["hint"] * 14, "from user code:", *other, *mine, *other, "", "Set …"])
    assert seen[-4:-1] == mine
    assert [line for line in seen if line in FRAMES] == FRAMES[-2:]
    assert other[0] not in seen


def test_of_logs_the_first_lines_are_shown_without_dates_and_processes():
    prefix = "V1127 11:03:56.108000 15165 torch/_dynamo/guards.py:6374] [0/1] [__recompiles] "
    logs = [f"{prefix}- 0/{number}: self.step == 1" for number in range(30)]
    seen = shown(["the model is compiled TOO OFTEN", *logs])
    assert seen[:2] == ["the model is compiled TOO OFTEN", "- 0/0: self.step == 1"]
    assert seen[8:] == ["- 0/7: self.step == 1", "… 22 lines left out: see repro.log …"]


def test_of_what_ends_without_an_error_both_ends_are_shown():
    seen = shown(WRONG)
    assert (seen[0], seen[-1], len(seen)) == (WRONG[0], WRONG[-1], 12 + 1 + 28)


@pytest.mark.parametrize("lines", [WRONG[:20], RAISED[-5:], ["one", "No CUDA runtime is found"]])
def test_a_short_output_is_whole(lines):
    assert shown(lines) == [line for line in lines if "CUDA" not in line]


def test_a_report_of_a_case_that_raises_begins_with_the_error_and_not_with_its_first_frames():
    trace = {"kind": "LoweringError", "message": "no loops", "traceback": "\n".join(RAISED)}
    made = make_failed_observation("raised", A, **trace)
    found = failures(made)
    suspect = Suspect(*culprits(found), made, [found[0].verdict], lambda case: None, "2.15.0")
    text = issue.text(suspect, Findings(), make_environment(), "observe", "")
    assert "LoweringError: no loops\nsecond line\n" in text
    assert FRAMES[-1] in text
    assert FRAMES[5] not in text
    assert "left out: see case.log" in text
    assert issue.last_words(made) == trace["traceback"]
