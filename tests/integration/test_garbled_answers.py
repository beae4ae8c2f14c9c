"""Whatever a child sends instead of its answer costs its own case, and the next one is judged."""

import sys

import pytest

from compilegate.processes import protocol
from compilegate.processes.zoo_listing import list_models
from compilegate.zoo.registry import ZooError
from tests.integration.processes import living, soon
from tests.integration.served import served
from tests.unit.making import CASE_ID


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served")) as server:
        yield server
    assert server.process.returncode == 0


ANSWER = f'{{"observation": {{"case": "{CASE_ID}", "status": "completed"}}, "last": false}}'


@pytest.mark.parametrize(
    ("code", "why"),
    [
        pytest.param(r"write(b'\x1b[31mjunk\xff\n')", r": b'\x1b[31mjunk\xff'", id="junk"),
        pytest.param("write(b'\\n')", ": b''", id="an empty line"),
        pytest.param(r"write(b'\xff' * 8 + b'{}\n')", r": b'\xff\xff", id="a length prefix"),
        pytest.param("write(b'[' * 100_000 + b'\\n')", ": b'[[[[", id="deep nesting"),
        pytest.param("write(b'{\"stage\"')", "half a message: b'{\"stage\"'", id="half a message"),
        pytest.param("write(b'7\\n')", "Expected `object`, got `int`: b'7'", id="a number"),
        pytest.param("send()", "none of the fields of a message, or several: b'{}'", id="nothing"),
        pytest.param("send(stage='lunch')", "Invalid enum value 'lunch'", id="an unknown stage"),
        pytest.param("send(stage='call', turn={'iterations': 1})", "or several", id="two in one"),
        pytest.param("send(status='good')", "unknown field `status`", id="an unknown field"),
        pytest.param(
            "send(observation=3)", "Expected `object | null`, got `int`", id="a wrong type"
        ),
        pytest.param(
            "send(observation={'case': 7, 'status': 'completed'})",
            "Expected `str`, got `int` - at `$.observation.case`",
            id="a wrong type within",
        ),
        pytest.param("send(observation={})", "missing required field `case`", id="a wrong shape"),
        pytest.param(
            "send(observation={'case': 'tiny-cpu-infer-f32-default-static', 'status': 'completed', "
            "'memory': {'eager_peak_bytes': -1, 'compiled_peak_bytes': 0}})",
            "eager_peak_bytes",
            id="an impossible figure",
        ),
        pytest.param("send(environment={})", "missing required field", id="another answer"),
        pytest.param(
            "answer('other-cpu-infer-f32-default-static')",
            "it is about another case: 'other-cpu-infer-f32-default-static'",
            id="another case",
        ),
        pytest.param(
            f"write(b'''{ANSWER}\\n{ANSWER}\\n''')",
            'more than one answer; it went on with b\'{"observation"',
            id="two answers",
        ),
        pytest.param(
            "send(turn={'iterations': 3})", "it timed rounds that nobody asked for", id="a turn"
        ),
        pytest.param(
            "send(turn={'iterations': 1, 'eager_ns': [0.0], 'compiled_ns': [1.0]})",
            "the rounds of a turn must take time",
            id="rounds without time",
        ),
    ],
)
def test_what_is_no_answer_crashes_its_case_and_the_next_one_is_judged(server, code, why):
    made, verdict = server.observe(f"send(stage='eager')\n{code}", 60.0)
    assert (made.status, made.failure.kind) == ("crashed", "garbled answer")
    assert (verdict.outcome, made.failure.stage) == ("failed", "eager")
    assert verdict.summary.startswith("crashed in stage 'eager': garbled answer: ")
    assert why in verdict.summary
    assert verdict.summary.isprintable()
    assert len(verdict.summary) < 300
    made, _ = server.observe("send(stage='eager')\nend()", 60.0)
    assert (made.status, made.failure) == ("completed", None)


def test_a_stream_without_end_is_refused_at_the_size_limit(server, monkeypatch):
    monkeypatch.setattr(protocol, "LONGEST_MESSAGE", 1 << 20)
    made, _ = server.observe("while True: write(b'x' * 65536)", 60.0)
    assert "garbled answer: a message of more than 1 MiB: b'xxxx" in made.failure.message
    answer = ANSWER.replace("}", ', "output": "' + "y" * (1 << 19) + '"}', 1)
    made, _ = server.observe(f"write(b'''{answer}\\n''')", 60.0)  # within the limit
    assert made.status == "completed"


def test_a_child_that_floods_its_output_is_killed(server, monkeypatch):
    monkeypatch.setattr(protocol, "MOST_OUTPUT", 1 << 20)
    made, verdict = server.observe("import os\nwhile True: os.write(1, b'z' * 65536)", 60.0)
    assert (made.status, made.failure.kind) == ("crashed", "too much output")
    assert "too much output: more than 1 MiB" in verdict.summary
    made, _ = server.observe("import os\nos.write(1, b'z' * 1000_000)\nend()", 60.0)
    assert made.status == "completed"


def test_messages_without_end_are_ended_by_the_time_limit(server):
    made, _ = server.observe('while True: write(b\'{"stage": "call"}\\n\' * 100)', 0.3)
    assert made.status == "timed_out"


def test_a_child_that_has_sent_more_since_its_answer_is_not_asked_again(server):
    child = server.child("import time\nanswer(); write(b'x'); time.sleep(600)")
    assert next(child.listen(every_s=60.0)).observation
    assert soon(lambda: not child.is_idle)
    child.end()


def test_a_child_that_waits_for_its_next_case_is_asked_again(server):
    child = server.child("end()")
    assert next(child.listen(every_s=60.0)).observation
    assert child.is_idle
    child.end()
    assert not child.is_idle


def test_a_child_that_reads_no_requests_does_not_keep_the_parent(server):
    child = server.child("import time; time.sleep(600)")
    for _ in range(5000):
        child.send({"rounds": 3, "iterations": 1})
    child.end()


@pytest.mark.parametrize("line", ["{}", "7", "[" * 100_000, '{"models": [{"name": 3}]}', ""])
def test_a_zoo_file_that_answers_for_its_listing_is_refused(write, line):
    code = f"import os; os.write(1, {line!r}.encode() + b'\\n'); os._exit(0)"
    with pytest.raises(ZooError, match="exited with status 0 without an answer"):
        list_models(sys.executable, [write("mine.py", code)])


def test_a_zoo_file_that_prints_and_leaves_a_process_is_listed(write, tmp_path, monkeypatch):
    code = """
import subprocess
from compilegate import model
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("{}")
model("mine")(lambda: None)
"""
    monkeypatch.setenv("COMPILEGATE_TEST", str(tmp_path))
    (listed,) = list_models(sys.executable, [write("mine.py", code)])
    assert listed.name == "mine"
    assert not living(tmp_path)
