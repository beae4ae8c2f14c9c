"""Run files are read back as they were written, or refused with a sentence."""

import gzip
import json

import pytest

from compilegate.records.checksum import seal
from compilegate.records.run import SCHEMA, Closing, encode
from compilegate.runs.files import find, read
from compilegate.runs.reader import RunError, decode
from compilegate.runs.writer import Writer
from tests.unit.making import (
    CASE_ID,
    make_costs,
    make_header,
    make_observation,
    make_pair,
    make_verdict,
)

OTHER_ID = "tiny-cpu-infer-f32-default-static"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / "nightly.jsonl"


def write(path, *records):
    writer = Writer.create(path)
    for record in records:
        writer.write(record)
    writer.close()
    assert not writer.trouble


def test_a_whole_run_is_read_back(path):
    write(path, make_header(), make_observation(), make_verdict(), Closing(cases=1, wall_s=2.0))
    run = read(path)
    assert run.path == path
    assert run.header == make_header()
    assert run.observations == {CASE_ID: make_observation()}
    assert run.verdicts == {(CASE_ID, "forward"): make_verdict()}
    assert run.closing == Closing(cases=1, wall_s=2.0)
    assert not run.truncated
    assert run.missing == []


def test_records_given_as_lines_are_written_unchanged(path):
    write(path, make_header(), encode(make_observation()))
    assert read(path).observations == {CASE_ID: make_observation()}


def test_what_was_planned_and_not_observed_is_missing(path):
    write(path, make_header(planned=(OTHER_ID, CASE_ID)), make_observation())
    run = read(path)
    assert run.missing == [OTHER_ID]
    assert run.closing is None


def test_the_last_record_of_a_case_counts(path):
    write(
        path,
        make_header(),
        make_observation(seed=1),
        make_observation(seed=2),
        make_verdict("failed"),
        make_verdict("passed"),
    )
    run = read(path)
    assert run.observations[CASE_ID].seed == 2
    assert run.verdicts[CASE_ID, "forward"].outcome == "passed"


def test_pairs_are_read_back_by_case_and_number(path):
    write(path, make_header(), make_pair(0), make_pair(1), last := make_pair(1, compiled=1.25))
    assert read(path).pairs == {(CASE_ID, 0): make_pair(0), (CASE_ID, 1): last}


def test_a_pair_is_stored_with_the_figures_that_were_judged():
    """They are judged as decoded, and a replay judges what the file holds."""
    costs = make_costs(eager_ns=2e6 / 3, compiled_ns=1e5 / 7, compiled_peak_bytes=2**24 + 2**20)
    judged = decode(encode(make_pair(candidate=costs)))
    assert decode(encode(judged)) == judged
    assert judged.candidate.compiled_peak_bytes == 17825792
    assert judged.candidate.eager_ns == 666667


def test_a_case_that_was_observed_again_has_only_its_new_pairs(path):
    other = make_pair(0, "other-cpu-infer-f32-default-static")
    write(
        path, make_header(), other, make_pair(0), make_pair(1), now := make_pair(0, compiled=1.25)
    )
    assert read(path).pairs == {(other.case, 0): other, (CASE_ID, 0): now}


def test_a_second_header_takes_nothing_away(path):
    write(path, make_header(), make_observation(), make_header(seed=5))
    run = read(path)
    assert run.header == make_header()
    assert list(run.observations) == [CASE_ID]


def test_a_line_cut_short_is_dropped_and_reported(path):
    write(path, make_header(), make_observation(), make_verdict())
    path.write_text(path.read_text()[:-20])
    run = read(path)
    assert run.truncated
    assert list(run.observations) == [CASE_ID]
    assert run.verdicts == {}


def test_a_compressed_run_is_read(path):
    write(path, make_header(), make_observation(), make_verdict())
    compressed = path.with_name("run.jsonl.gz")
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(compressed).verdicts == read(path).verdicts
    spoilt = bytearray(compressed.read_bytes())
    spoilt[len(spoilt) // 2] ^= 0xFF
    compressed.write_bytes(spoilt)
    with pytest.raises(RunError, match=r"cannot read the run file .*run\.jsonl\.gz"):
        read(compressed)


def test_the_beginning_of_a_truncated_compressed_run_is_read(path):
    verdicts = [make_verdict(case=f"net{i}-cpu-infer-f32-default-static") for i in range(50)]
    write(path, make_header(), make_observation(), *verdicts)
    compressed = path.with_name("run.jsonl.gz")
    compressed.write_bytes(gzip.compress(path.read_bytes())[:-20])
    run = read(compressed)
    assert list(run.observations) == [CASE_ID]
    assert 0 < len(run.verdicts) < 50
    assert run.closing is None


def test_a_run_cut_anywhere_is_read_or_refused_never_misread(path):
    records = [make_header(), make_observation(), make_verdict(), Closing(cases=1, wall_s=1.0)]
    write(path, *records)
    whole = path.read_bytes()
    ends = [i for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in {*range(0, len(whole), 37), *ends, *(end + 1 for end in ends)}:
        path.write_bytes(whole[:cut])
        lines = whole[:cut].count(b"\n")
        if not lines:
            with pytest.raises(RunError, match="has no header"):
                read(path)
            continue
        run = read(path)
        seen = len(run.observations) + len(run.verdicts) + (run.closing is not None)
        assert seen == lines - 1
        assert run.truncated == (not whole[:cut].endswith(b"\n"))


def test_a_newer_format_is_refused_with_the_way_out(path):
    write(path, make_header(schema=SCHEMA + 1))
    with pytest.raises(RunError, match=rf"newer compilegate \(format {SCHEMA + 1}.*update"):
        read(path)


def test_a_newer_format_is_named_although_its_header_has_unknown_fields(path):
    """What a newer version adds or renames is unknown here; the version is what to tell."""
    write(path, make_header(schema=SCHEMA + 1))
    content = json.loads(path.read_text())
    del content["tier"]
    content["invented"] = {"later": True}
    path.write_text(json.dumps(content) + "\n")
    with pytest.raises(RunError, match="newer compilegate"):
        read(path)


def test_fields_that_are_unknown_here_are_overlooked(path):
    write(path, make_header())
    content = json.loads(encode(make_observation())) | {"invented": 1}
    with path.open("a") as file:
        file.write(seal(json.dumps(content)) + "\n")
    assert read(path).observations == {CASE_ID: make_observation()}


def test_a_file_without_header_is_refused(path):
    write(path, make_observation())
    with pytest.raises(RunError, match=r"nightly\.jsonl:1: a run file begins with its header"):
        read(path)


def test_an_empty_file_is_refused(path):
    path.parent.mkdir()
    path.touch()
    with pytest.raises(RunError, match="has no header"):
        read(path)


def test_a_missing_file_is_refused(path):
    with pytest.raises(RunError, match=r"cannot read the run file .*nightly\.jsonl"):
        read(path)


def test_a_binary_file_is_refused(path):
    path.parent.mkdir()
    path.write_bytes(bytes(range(128, 256)))
    with pytest.raises(RunError, match=r"nightly\.jsonl"):
        read(path)


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        "3",
        "{}",
        '{"record": "nothing"}',
        '{"record": "verdict"}',
        '{"record": "verdict", "case": "a", "aspect": "b", "outcome": "great", "summary": ""}',
        "",
    ],
)
def test_a_malformed_line_is_refused_by_its_number(path, line):
    write(path, make_header(), make_observation())
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(RunError, match=r"nightly\.jsonl:3: not a record of a run"):
        read(path)


def test_lines_of_other_programs_are_no_records():
    with pytest.raises((ValueError, KeyError)):
        decode('{"record": "invented"}')


@pytest.mark.parametrize("name", ["nightly", "nightly.jsonl", "{}/runs/nightly.jsonl"])
def test_runs_are_found_by_name_and_by_path(path, tmp_path, name):
    write(path, make_header())
    assert find(name.format(tmp_path), path.parent).resolve() == path


def test_a_run_that_was_compressed_is_found_and_listed(path):
    write(path, make_header())
    packed = path.with_name("old.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert find("old", path.parent) == packed
    with pytest.raises(RunError, match="known: nightly, old"):
        find("zzz", path.parent)


def test_an_unknown_run_names_the_nearest(path):
    write(path, make_header())
    with pytest.raises(RunError, match=r"no run 'nihgtly' in .*runs; did you mean 'nightly'\?"):
        find("nihgtly", path.parent)


def test_an_unknown_run_lists_the_known_ones(path):
    write(path, make_header())
    with pytest.raises(RunError, match=r"no run 'zzz' in .*; known: nightly"):
        find("zzz", path.parent)


def test_an_unknown_run_is_refused_where_there_are_no_runs(tmp_path):
    with pytest.raises(RunError, match="has no runs: give the path that"):
        find("nightly", tmp_path / "nowhere")


def test_a_folder_is_refused_as_a_run(tmp_path):
    (tmp_path / "nightly").mkdir()
    with pytest.raises(RunError, match="no run 'nightly'"):
        find("nightly", tmp_path)
