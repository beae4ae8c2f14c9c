"""The terminal: the line of a case, and the status line."""

import threading

import pytest

from compilegate.judging.aspects import ASPECTS
from compilegate.output.visible import visible
from compilegate.reports.case_line import Progress, case_lines, failure_letter, legend
from compilegate.reports.status_line import StatusLine, observed_text
from compilegate.reports.text import cut, duration, wrapped
from tests.unit.making import (
    CASE_ID,
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_compilation,
    make_error,
    make_failed_observation,
    make_memory,
    make_observation,
    make_timing,
)

PROGRESS = Progress(done=3, planned=12, fresh=3, elapsed_s=30.0)
INFER_ID = "tiny-cpu-infer-f32-default-static"
LONG_ID = "matvec_decorated-cuda-train-bf16-max_autotune_no_cudagraphs-dynamic-regional"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (40.4, "40 s"),
        (98.9, "99 s"),
        (100, "2 min"),
        (170, "3 min"),
        (3600, "60 min"),
        (5930, "99 min"),
        (5999, "1 h 40 min"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations_have_the_unit_that_a_person_would_use(seconds, text):
    assert duration(seconds) == text


def test_a_sentence_wraps_and_its_ids_and_its_command_stay_whole():
    command = f"python -m compilegate observe {LONG_ID} --zoo my_models.py --budgets my.toml"
    sentence = f"  {LONG_ID} is slower than before, and nobody knows why"
    first, *rest, last = wrapped(f"{sentence}; to know more, run: {command}", 80)
    assert first == f"  {LONG_ID}"
    assert " ".join([first, *(line.strip() for line in rest)]) == f"{sentence}; to know more, run:"
    assert max(map(len, [first, *rest])) <= 80
    assert last == f"    {command}"
    assert wrapped("short: pytest suites/", 80) == ["short: pytest suites/"]


def test_a_long_guard_is_broken_at_brackets_and_a_long_path_is_whole():
    modules = "".join(f"._modules['{name}']" for name in ("layers", "0", "attention", "query"))
    guard = f"___check_obj_id(L['self']{modules}._forward_hooks, 7)"
    lines = wrapped(f"  recompiled: net.py:10 in forward: 0/0: {guard}", 60)
    assert max(map(len, lines)) <= 60
    assert "".join(line.strip() for line in lines).endswith(guard.replace(" ", ""))
    path = f"/runs/{'folder' * 12}/report.md"
    assert f"  {path}" in [f"  {line.strip()}" for line in wrapped(f"its report is {path}", 60)]


def test_lines_are_printable_and_fit():
    assert visible("a\x1b[2Jb\nc") == r"a\u001b[2Jb\u000ac"
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (PROGRESS, "[ 3/12, 90 s left]"),
        (Progress(done=12, planned=12, fresh=12, elapsed_s=30.0), "[12/12]"),
        (Progress(done=3, planned=12, fresh=0, elapsed_s=30.0), "[ 3/12]"),
        (Progress(done=9, planned=120, fresh=9, elapsed_s=900.0), "[  9/120, 3 h 5 min left]"),
        (Progress(done=1, planned=12, fresh=12, elapsed_s=30.0, observed=12), "[ 1/12]"),
        (Progress(done=3, planned=12, fresh=3, elapsed_s=9.0, observed=9), "[ 3/12, 9 s left]"),
        (Progress(done=1, planned=12, fresh=1, elapsed_s=30.0, left=2.0), "[ 1/12, 60 s left]"),
    ],
)
def test_progress_shows_how_far_and_how_long(progress, text):
    assert str(progress) == text


# The line of a case.


def lines_of(observation, letters=".", width=200):
    return case_lines(observation, letters, PROGRESS, width=width)


def full_observation(case=CASE_ID):
    return make_observation(
        case=case,
        cold=True,
        timing=make_timing(2.0),
        memory=make_memory(100, 125),
        capture=make_capture(
            breaks=(make_break(),),
            compilations=(
                make_compilation(),
                make_compilation(1, "size"),
                make_compilation(2, "x"),
            ),
        ),
    )


def test_a_case_is_one_line_where_it_fits():
    assert lines_of(full_observation(), "..B.") == [
        f"[ 3/12, 90 s left]   ..B.     {CASE_ID}  forward 1e-07  gradients 1e-07  breaks 1  "
        "recompiles 2  speedup 2.00× [2.00, 2.00]  compile 4.0 s cold  memory 1.25×"
    ]


@pytest.mark.parametrize("case", [CASE_ID, INFER_ID, LONG_ID])
def test_at_80_columns_a_case_wraps_and_its_id_does_not(case):
    *head, figures = lines_of(full_observation(case), "..B.", width=80)
    assert any(line.endswith(case) for line in head)
    assert max(map(len, [*head, figures])) <= 80
    assert figures.startswith("  f")
    assert figures.endswith(" mem 1.25×")
    assert "breaks 1" in figures


def test_at_80_columns_the_least_notable_figures_are_left_out_first():
    (_, figures) = lines_of(make_observation(timing=make_timing(2.0), cold=True), width=80)
    assert figures == (
        "  forward 1e-07  gradients 1e-07  speedup 2.00× [2.00, 2.00]  compile 4.0 s cold"
    )


def test_figures_that_were_not_measured_are_left_out():
    infer = make_call(gradients=make_checked())
    observation = make_observation(case=INFER_ID, calls=(infer,), compile_time=None, capture=None)
    (line,) = lines_of(observation)
    assert line.endswith(f"{INFER_ID}  forward 1e-07")


def test_a_warm_compile_is_marked():
    assert "compile 4.0 s warm" in lines_of(make_observation())[0]


def test_the_worst_error_is_that_of_a_tensor_that_eager_computes_well():
    calls = (
        make_call(outputs=make_checked(make_error(compiled_rms=1e-6))),
        make_call(
            outputs=make_checked(
                make_error(compiled_rms=3e-5),
                make_error(eager_rms=0.5, compiled_rms=0.5),
                make_error(scale=0.0, compiled_rms=0.9),
            )
        ),
    )
    assert "forward 3e-05" in lines_of(make_observation(calls=calls))[0]


def test_a_case_that_did_not_run_shows_where_it_ended():
    observation = make_failed_observation("timed_out", stage="call", message="after 300 s")
    (line,) = lines_of(observation, "F")
    assert line.endswith(f"{CASE_ID}  timed out in stage call: after 300 s")


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_long_failure_is_cut(width):
    observation = make_failed_observation("raised", message="x" * 1000)
    assert all(len(line) <= width for line in lines_of(observation, "F", width))


def test_memory_of_a_case_that_allocates_nothing_is_left_out():
    assert "memory" not in lines_of(make_observation(memory=make_memory(0, 0)))[0]


def test_nan_is_shown():
    wrong = make_checked(make_error(compiled_rms=float("nan")))
    assert "forward nan" in lines_of(make_observation(calls=(make_call(outputs=wrong),)))[0]


def test_a_failure_has_the_letter_of_its_aspect():
    assert [failure_letter(aspect) for aspect in ("forward", "side_effects", "other")] == list(
        "FSF"
    )
    letters = [aspect.letter for aspect in ASPECTS.values()]
    assert len(set(letters)) == len(letters)
    assert set(letters).isdisjoint(".x?sE")


def test_the_legend_explains_the_letters_that_were_shown():
    assert legend("....") == ""
    assert legend("..S.?sS") == "? inconclusive, S side_effects, s skipped"


# The status line.


class Terminal:
    """As much of pytest's terminal reporter as the status line uses."""

    def __init__(self, isatty=True):
        self.isatty, self.written = isatty, []
        self._tw = self
        self.fullwidth = 40

    def rewrite(self, line, erase=False):
        self.written.append(line.ljust(self.fullwidth - 1) if erase else line)

    def flush(self):
        pass


@pytest.mark.parametrize(
    ("observed", "text"),
    [
        (("", "start", 7.0, ""), "starting a process, 7 s"),
        ((CASE_ID, "eager", 7.0, ""), f"{CASE_ID}: eager, 7 s"),
        ((CASE_ID, "compile", 7.0, "2 cc1plus"), f"{CASE_ID}: compile, 7 s, 2 cc1plus at work"),
    ],
)
def test_the_status_line_names_the_stage_and_the_compilers(observed, text):
    assert observed_text(*observed) == text


def test_the_status_line_is_shown_at_most_once_a_second_and_removed():
    terminal = Terminal()
    line = StatusLine(terminal)
    line.clear()
    assert terminal.written == []
    line.show("first " + "x" * 100)
    line.show("too soon")
    assert len(terminal.written) == 1
    assert len(terminal.written[0]) == 39
    line.clear()
    assert terminal.written[1:] == [" " * 39, ""]
    line.show("at once after it was removed")
    assert len(terminal.written) == 4


def test_no_thread_shows_the_status_line_while_something_else_is_printed():
    terminal = Terminal()
    line = StatusLine(terminal)
    line.show("compiling")
    other = threading.Thread(target=line.show, args=("still compiling",))
    with line.removed():
        other.start()
        other.join(0.2)
        terminal.written.append("a case")
    other.join()
    assert [text.strip() for text in terminal.written] == [
        *("compiling", "", "", "a case", "still compiling")
    ]


@pytest.mark.parametrize("terminal", [None, Terminal(isatty=False)])
def test_without_a_terminal_there_is_no_status_line(terminal):
    line = StatusLine(terminal)
    line.show("text")
    line.clear()
    assert terminal is None or terminal.written == []
