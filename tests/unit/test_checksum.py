"""Each line that is written ends with its checksum, and any changed bit of it is noticed."""

import json

import pytest

from compilegate.records.checksum import seal, state
from compilegate.records.run import encode
from compilegate.runs.files import read
from compilegate.runs.reader import RunError
from compilegate.runs.writer import Writer
from tests.unit.making import CASE_ID, make_header, make_observation, make_verdict
from tests.unit.runs import write_run


def test_the_last_field_is_the_crc_of_all_before():
    """Other programs may check it: the format is fixed."""
    assert seal('{"record":"closing","cases":1}') == (
        '{"record":"closing","cases":1,"crc32":"0b3913fd"}'
    )


def test_a_line_is_sealed_once_and_remains_json():
    line = encode(make_observation())
    sealed = seal(line)
    assert seal(sealed) == sealed
    assert json.loads(sealed).keys() - json.loads(line).keys() == {"crc32"}


def test_every_changed_bit_is_noticed():
    line = seal(encode(make_verdict())).encode()
    assert state(line) == "right"
    for position in range(len(line)):
        for bit in range(8):
            damaged = bytearray(line)
            damaged[position] ^= 1 << bit
            assert state(bytes(damaged)) != "right"


def test_every_written_line_has_a_checksum(tmp_path):
    writer = Writer.create(tmp_path / "new.jsonl")
    for record in (make_header(), encode(make_observation()), make_verdict()):
        writer.write(record)
    writer.close()
    lines = writer.path.read_bytes().splitlines()
    assert [state(line) for line in lines] == ["right"] * 3


def test_a_run_of_an_earlier_version_is_continued_with_checksums(tmp_path):
    path = write_run(tmp_path / "old.jsonl", make_observation(), complete=False)
    writer = Writer.resume(path)
    writer.write(make_verdict())
    writer.close()
    lines = path.read_bytes().splitlines()
    assert [state(line) for line in lines] == ["none", "none", "right"]
    assert list(read(path).verdicts) == [(CASE_ID, "forward")]
    with path.open("a") as file:
        file.write(encode(make_verdict()) + "\n")
    with pytest.raises(RunError, match=r"old\.jsonl:4: not a record of a run: its checksum is mis"):
        read(path)
