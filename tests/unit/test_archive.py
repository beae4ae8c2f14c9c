"""Reading a run file case by case gives what reading it as a whole gives, and the same errors."""

import gzip
import json

import pytest

from compilegate.records.run import SCHEMA, Closing, Record, encode
from compilegate.runs import files
from compilegate.runs.archive import Archive, CaseRecord
from compilegate.runs.reader import RunError
from compilegate.runs.slim import slim_observation
from tests.unit.making import (
    CASE_ID,
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_difference,
    make_error,
    make_failed_observation,
    make_header,
    make_memory,
    make_observation,
    make_pair,
    make_timing,
    make_verdict,
)

OTHER_ID = "tiny-cpu-infer-f32-default-static"

RICH = make_observation(
    calls=(
        make_call(
            sizes={"batch": 8},
            outputs=make_checked(
                make_error(compiled_rms=float("nan"), jumps=True),
                differences=[make_difference()],
            ),
        ),
    ),
    capture=make_capture(breaks=(make_break(),), limits=("hit",)),
    timing=make_timing(),
    memory=make_memory(),
    cold=True,
)


def write(path, *records: Record | str):
    lines = (record if isinstance(record, str) else encode(record) for record in records)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "nightly.jsonl"


def test_a_case_equals_the_same_case_of_the_whole_run(path):
    write(
        path,
        make_header(planned=(CASE_ID, OTHER_ID)),
        RICH,
        make_verdict(),
        make_verdict("failed", aspect="memory", summary="too much"),
        Closing(cases=2, wall_s=1.0),
    )
    whole = files.read(path)
    with Archive(path) as run:
        seen = run.seen(CASE_ID)
        assert run.header == whole.header
        assert run.closing == whole.closing
        assert run.missing == whole.missing == [OTHER_ID]
        assert run.seen(OTHER_ID) == CaseRecord(planned=True)
        assert run.seen("nothing-cpu-infer-f32-default-static") == CaseRecord(planned=False)
    assert seen.observation is not None
    (tensor,) = seen.observation.calls[0].outputs.errors
    assert tensor.compiled_rms != tensor.compiled_rms
    assert tensor.jumps
    assert seen.observation.capture == RICH.capture
    assert seen.observation.timing == RICH.timing
    assert seen.observation.calls[0].sizes == {"batch": 8}
    assert seen.observation.calls[0].outputs.differences == (make_difference(),)
    assert {aspect: v.outcome for aspect, v in seen.verdicts.items()} == {
        "forward": "passed",
        "memory": "failed",
    }


def test_a_case_of_a_running_session_is_the_same_as_of_its_file(path):
    observation = make_observation(timing=make_timing(), memory=make_memory())
    write(path, make_header(), observation, make_verdict())
    with Archive(path) as run:
        assert run.seen(CASE_ID) == CaseRecord.of(observation, [make_verdict()])


def test_the_last_record_counts(path):
    first, last = make_observation(parameters=1), make_observation(parameters=2)
    write(path, make_header(), first, make_verdict("failed"), last, make_verdict("passed"))
    with Archive(path) as run:
        seen = run.seen(CASE_ID)
        assert [json.loads(line)["record"] for line in run.raw(CASE_ID)] == [
            "observation",
            "verdict",
            "observation",
            "verdict",
        ]
    assert seen.observation == slim_observation(last)
    assert seen.verdicts["forward"].outcome == "passed"


def test_an_observation_that_was_not_planned_is_a_case_too(path):
    write(path, make_header(planned=(OTHER_ID,)), make_observation())
    with Archive(path) as run:
        assert run.cases == (OTHER_ID, CASE_ID)
        assert run.seen(CASE_ID).planned


def test_a_failed_case_keeps_its_failure(path):
    write(path, make_header(), make_failed_observation("crashed", kind="SIGSEGV"))
    with Archive(path) as run:
        digest = run.seen(CASE_ID).observation
    assert digest is not None
    assert digest.failure is not None
    assert (digest.status, digest.failure.kind) == ("crashed", "SIGSEGV")


def test_keys_in_another_order_are_read_too(path):
    content = json.loads(encode(make_observation()))
    turned = json.dumps(dict(reversed(content.items())), separators=(", ", ": "))
    write(path, make_header(), turned)
    with Archive(path) as run:
        assert run.seen(CASE_ID).observation == slim_observation(make_observation())


def test_a_case_that_was_observed_again_has_only_its_new_pairs(path):
    write(path, make_header(), make_pair(0), make_pair(1), now := make_pair(0, compiled=1.25))
    with Archive(path) as run:
        assert list(run.pairs(CASE_ID)) == [now]


def test_a_line_cut_short_is_dropped_and_reported(path):
    write(path, make_header(), make_observation(), make_verdict())
    path.write_text(path.read_text()[:-20])
    with Archive(path) as run:
        assert run.truncated
        assert run.seen(CASE_ID).verdicts == {}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "has no header"),
        ([make_observation()], "1: a run file begins with its header"),
        ([make_header(schema=SCHEMA + 1)], "written by a newer compilegate"),
        ([make_header(), "not json"], "2: not a record of a run"),
        ([make_header(), "{}"], "2: not a record of a run"),
        ([make_header(), '{"record":"sighting","case":"x"}'], "2: not a record of a run"),
        ([make_header(), '{"record":"verdict"}'], "2: not a record of a run: it names no case"),
        ([make_header(), '{"record":"closing"}'], "2: not a record of a run"),
        (['{"record":"header","schema":1}'], "1: not a record of a run"),
    ],
)
def test_files_that_are_no_runs_are_refused_with_their_line(path, lines, message):
    write(path, *lines)
    with pytest.raises(RunError, match=f"nightly.jsonl:? ?{message}|{message}"):
        Archive(path)


def test_a_record_with_a_wrong_field_is_refused_before_anything_is_shown(path):
    broken = encode(make_observation()).replace('"status":"completed"', '"status":"great"')
    write(path, make_header(), broken)
    with pytest.raises(RunError, match=r"nightly\.jsonl:2: not a record"):
        Archive(path)


@pytest.mark.parametrize("content", [bytes(range(128, 256)), b'{"record":"\xff"}\n'])
def test_binary_files_are_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"nightly\.jsonl"):
        Archive(path)


def test_a_missing_file_is_refused(path):
    with pytest.raises(RunError, match="cannot read the run file"):
        Archive(path)


def test_a_compressed_run_reads_like_the_original(path):
    write(path, make_header(), make_observation(), make_verdict())
    compressed = path.with_name("run.jsonl.gz")
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    with Archive(path) as plain, Archive(compressed) as same:
        assert same.seen(CASE_ID) == plain.seen(CASE_ID)
    whole = compressed.read_bytes()
    compressed.write_bytes(whole[:-20])
    with Archive(compressed) as cut:
        assert cut.truncated
        assert cut.observed(CASE_ID)
    compressed.write_bytes(whole[:40] + b"0" * 40 + whole[80:])
    with pytest.raises(RunError, match=r"cannot read the run file .*run\.jsonl\.gz"):
        Archive(compressed)
