"""What a child wrote: in the stacks of its threads, the one that observes the case comes first."""

import tempfile

import pytest

from compilegate.processes.child_output import OBSERVING, output_of


def shown(text):
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(text.encode())
        return output_of(file).splitlines()


STACKS = """before
Thread 0x00007f02 (most recent call first):
  File "/lib/threading.py", line 1, in wait
  File "/lib/threading.py", line 2, in run

Thread 0x00007f01 (most recent call first):
  File "/lib/queue.py", line 3, in get

Current thread 0x00007f00 (most recent call first):
  File "/home/me/net.py", line 4, in forward
  File "/site-packages/compilegate/observe/server.py", line 5, in run
"""


def test_the_observing_thread_comes_first_and_is_marked():
    assert shown(STACKS) == [
        "before",
        f"Thread 0x00007f00 (most recent call first), {OBSERVING}:",
        '  File "/home/me/net.py", line 4, in forward',
        "Thread 0x00007f02 (most recent call first):",
        '  File "/lib/threading.py", line 1, in wait',
        '  File "/lib/threading.py", line 2, in run',
        "Thread 0x00007f01 (most recent call first):",
        '  File "/lib/queue.py", line 3, in get',
    ]


def test_the_name_that_python_3_14_gives_a_thread_is_kept():
    text = STACKS.replace("0x00007f00", "0x00007f00 [python]")
    assert shown(text)[1] == f"Thread 0x00007f00 [python] (most recent call first), {OBSERVING}:"


def test_many_threads_do_not_hide_the_observing_one():
    other = 'Thread 0x00007f99 (most recent call first):\n  File "/lib/a.py", line 1, in wait\n\n'
    lines = shown(STACKS.replace("before\n", "before\n" * 100 + other * 100))
    assert len(lines) == 40
    assert lines.count("before") == 10
    assert lines[10:12] == [
        f"Thread 0x00007f00 (most recent call first), {OBSERVING}:",
        '  File "/home/me/net.py", line 4, in forward',
    ]


def test_a_deep_stack_leaves_room_for_other_threads():
    deep = '  File "/home/me/net.py", line 4, in forward\n'
    lines = shown(STACKS.replace(deep, deep * 90))
    assert lines.count(deep.rstrip()) == 20
    assert '  File "/lib/queue.py", line 3, in get' in lines


@pytest.mark.parametrize("text", ["", "a\nb", "a thread\nThread 7 is late\nCurrent thread: none"])
def test_other_output_stays_as_it_is(text):
    assert shown(text) == text.splitlines()


def test_a_crash_shows_the_thread_that_crashed_alone():
    lines = shown(f"Fatal Python error: Segmentation fault\n\n{STACKS}")
    assert lines == [
        "Fatal Python error: Segmentation fault",
        "Current thread 0x00007f00 (most recent call first):",
        '  File "/home/me/net.py", line 4, in forward',
    ]
