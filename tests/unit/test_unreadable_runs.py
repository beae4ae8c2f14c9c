"""Every kind of damage to a run file gives one sentence, from every command that reads a run."""

import contextlib
import gzip
import os
import re
import tempfile
import zlib
from pathlib import Path

import pytest

from compilegate.records.checksum import seal
from compilegate.records.run import SCHEMA
from compilegate.runs import files, opening, reader
from compilegate.runs.reader import RunError
from compilegate.session.planning import make_plan
from tests.unit.damage import CASES, content, unsealed, whole_run
from tests.unit.planned import make_options
from tests.unit.reading_commands import commands, run_command, whole_runs

LINES = whole_run("2.15.0")
WHOLE = content(LINES)
#: The first observation: the line that most damage is done to.
SEEN = LINES[1]
PACKED = gzip.compress(WHOLE)
#: A field that decoders skip, under a right checksum.
SEALED_BINARY = unsealed(SEEN)[:-1].encode() + b',"\xff":0'
SEALED_BINARY += b',"crc32":"%08x"}' % zlib.crc32(SEALED_BINARY)
NESTED = "[" * 100_000 + "]" * 100_000


@pytest.fixture
def folder(tmp_path):
    """A folder of whole runs."""
    return whole_runs(tmp_path)


def with_line(line, number=2):
    """A run with another line in the place of one."""
    lines = [text.encode() for text in LINES]
    lines[number - 1] = line if isinstance(line, bytes) else line.encode()
    return b"".join(text + b"\n" for text in lines)


def edited(before, after, number=2):
    """A run in which a text of one line is another, and the checksum that of the new line."""
    line = LINES[number - 1]
    assert before in line
    return with_line(seal(unsealed(line).replace(before, after, 1)), number)


def earlier(before, after):
    """A run of a version without checksums in which a text of the second line is another."""
    assert before in SEEN
    lines = [unsealed(line) for line in LINES]
    lines[0] = lines[0].replace(f'"schema":{SCHEMA}', '"schema":2')
    lines[1] = lines[1].replace(before, after, 1)
    return content(lines)


#: By kind of damage: the file's content, and what the sentence says after the line's number.
DAMAGED_LINES = {
    "a flipped byte": (
        with_line(SEEN.replace('"seed":0', '"seed":8')),
        "it was changed after it was w",
    ),
    "no checksum": (with_line(unsealed(SEEN)), "its checksum is missing"),
    "a broken checksum": (with_line(SEEN.replace('"crc32"', '"crc33"')), "checksum is missing"),
    "a blank line": (with_line(""), "the line is blank"),
    "NUL bytes": (with_line(b"\0" * 64), "JSON is malformed"),
    "no JSON": (with_line("it works"), "JSON is malformed"),
    "another type of line": (with_line("[1, 2]"), "Expected `object`"),
    "an unknown record": (with_line('{"record":"sighting"}'), "unknown kind of record 'sighting'"),
    "a wrong type": (
        edited('"seed":0', '"seed":[]'),
        r"Expected `int`, got `array` - at `\$.seed`",
    ),
    "a missing field": (edited('"status":"completed",', ""), "missing required field `status`"),
    "an unknown status": (edited('"completed"', '"fine"'), "Invalid enum value 'fine'"),
    "deep nesting": (edited('"seed":0', f'"seed":0,"x":{NESTED}'), "nested too deeply"),
    "nesting in place": (edited('"seed":0', f'"seed":{NESTED}'), "Expected `int`, got `array`"),
    "a malformed case": (edited(CASES[0], "Tiny cpu"), "malformed case id 'Tiny cpu'"),
    "a huge integer": (edited('"seed":0', f'"seed":{"9" * 5000}'), "Integer value out of range"),
    "a huge float": (edited('"eager_j":1.0', '"eager_j":1e400'), "Number out of range"),
    "a NaN that is no JSON": (edited('"eager_j":1.0', '"eager_j":NaN'), "JSON is malformed"),
    "an infinite time": (edited('"total_s":4.0', '"total_s":"Infinity"'), "total_s is inf"),
    "a round of no time": (edited('"eager_ns":[1000000.0', '"eager_ns":[0'), "a round took 0 ns"),
    "unequal rounds": (edited('"eager_ns":[1000000.0,', '"eager_ns":['), "7 eager_ns and 8 compi"),
    "a lone surrogate": (edited('"reference":"float64"', r'"reference":"\ud800"'), "surrogate"),
    "invalid UTF-8": (
        earlier("float64", "float64\xff").replace(b"\xc3\xbf", b"\xff"),
        "invalid UTF",
    ),
    "invalid UTF-8 in a name": (with_line(SEALED_BINARY), "invalid UTF-8"),
    "two values of a field": (earlier('"seed":0', '"seed":0,"seed":1'), "the field 'seed' twice"),
    "two cases": (edited('"seed":0', f'"case":"{CASES[1]}"'), "it names two cases"),
    "a malformed plan": (edited(f'["{CASES[0]}"', '["x y"', 1), "malformed case id 'x y'"),
    "a damaged closing": (edited('"cases":2', '"cases":"x"', len(LINES)), "Expected `int`"),
}

#: By kind of damage: the name of the file, its content, and the sentence.
DAMAGED_FILES = {
    "an empty file": ("new.jsonl", b"", "has no header: it is not a run file"),
    "only NUL bytes": ("new.jsonl", b"\0" * 4096, "has no header"),
    "no header": ("new.jsonl", content(LINES[1:]), ":1: a run file begins with its header"),
    "another file": ("new.jsonl", b"\x89PNG\r\n\x1a\n", ":1: not a record of a run"),
    "a newer format": ("new.jsonl", edited(f'ma":{SCHEMA}', 'ma":99', 1), "newer compilegate"),
    "no gzip": ("new.jsonl.gz", WHOLE, "Not a gzipped file"),
    "an empty gzip": ("new.jsonl.gz", b"", "has no header"),
    "a damaged gzip": (
        "new.jsonl.gz",
        PACKED[:200] + bytes(99) + PACKED[299:],
        r"in line \d+ after",
    ),
    "a zip bomb": ("new.jsonl.gz", gzip.compress(bytes(10**6)), "unpacks to more than 100000 b"),
}


def refusals(path, folder):
    """Yield what each command and each option of a session says about a run."""
    for name, (words, written) in commands(folder, path).items():
        status, output, errors = run_command(*words)
        assert (status, output, errors.count("\n")) == (2, "", 1), (name, errors)
        assert written is None or not written.exists(), name
        yield errors
    old, new = str(folder / "old.jsonl"), str(path)
    for given in ({"replay": new}, {"resume": new}, {"replay": old, "baseline_run": new}):
        if path.suffix == ".gz" and "resume" in given:
            continue  # it is refused unread
        with pytest.raises(pytest.UsageError) as refused:
            make_plan(make_options(folder, **given), needs_environment=False)
        yield str(refused.value)


@pytest.mark.parametrize("damage", DAMAGED_LINES)
def test_a_damaged_line_is_named_by_every_command(folder, damage):
    made, why = DAMAGED_LINES[damage]
    path = folder / "new.jsonl"
    path.write_bytes(made)
    wrong = next(n for n, line in enumerate(made.split(b"\n")) if line not in kept(made))
    start = sum(len(line) + 1 for line in made.split(b"\n")[:wrong])
    end = start + len(made.split(b"\n")[wrong])
    for text in refusals(path, folder):
        found = re.search(
            rf"{path}:{wrong + 1}: not a record of a run: (.*), at byte (\d+); ", text
        )
        assert found, text
        assert re.search(why, found[1]), text
        assert start <= int(found[2]) <= end, text
        assert len(text) < 1000
    assert path.read_bytes() == made


def kept(made):
    """The lines of a damaged run that it shares with the whole one."""
    whole = [line.encode() for line in LINES]
    if b'"schema":2' in made:
        whole = [unsealed(line).encode() for line in LINES]
        whole[0] = whole[0].replace(b'"schema":%d' % SCHEMA, b'"schema":2')
    return {*whole}


@pytest.mark.parametrize("damage", DAMAGED_FILES)
def test_a_file_that_is_no_run_is_named_by_every_command(folder, monkeypatch, damage):
    monkeypatch.setattr(opening, "FEWEST_UNPACKED_BYTES", 10**5)
    monkeypatch.setattr(opening, "MOST_EXPANSION", 0)
    name, made, why = DAMAGED_FILES[damage]
    path = folder / name
    path.write_bytes(made)
    for text in refusals(path, folder):
        assert re.search(rf"{path}.*{why}", text), text


def test_a_line_without_end_is_not_read_into_memory(folder, monkeypatch):
    monkeypatch.setattr(reader, "MOST_LINE_BYTES", 2**16)
    path = folder / "new.jsonl"
    path.write_bytes(content([LINES[0]]) + b"x" * 2**17)
    for text in refusals(path, folder):
        assert f"{path}:2: not a record of a run: the line is longer than" in text


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_is_no_file_is_refused_and_not_waited_for(folder, make):
    path = folder / "new.jsonl"
    make(path)
    for text in refusals(path, folder):
        assert "not a regular file" in text or "is a directory" in text


def test_a_name_that_no_file_can_have_is_refused(folder):
    for text in refusals(folder / ("x" * 300), folder):
        assert "File name too long" in text


@contextlib.contextmanager
def unprivileged():
    """Root may read everything: be somebody else for a while."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


def test_a_file_that_may_not_be_read_is_refused():
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "new.jsonl"
        path.parent.chmod(0o755)
        path.write_bytes(WHOLE)
        path.chmod(0o000)
        denied = rf"cannot read the run file {path}: Permission denied"
        with unprivileged(), pytest.raises(RunError, match=denied):
            files.read(files.find("new", path.parent))


def test_a_folder_that_may_not_be_searched_is_refused(tmp_path):
    path = tmp_path / "closed" / "new.jsonl"
    path.parent.mkdir()
    path.parent.chmod(0o000)
    denied = rf"cannot read the run file {path}: Permission denied"
    with unprivileged(), pytest.raises(RunError, match=denied):
        files.find(str(path), tmp_path)


def test_without_the_damaged_line_only_its_case_is_missing(folder):
    """The sentence says so. A verdict or a pair of that case is left and harms nothing."""
    path = folder / "new.jsonl"
    path.write_bytes(DAMAGED_LINES["a flipped byte"][0])
    with pytest.raises(RunError, match=rf"\(sed -i 2d {path}\).*missing part of {CASES[0]} again"):
        files.read(path)
    path.write_bytes(content([LINES[0], *LINES[2:]]))
    assert files.read(path).missing == [CASES[0]]


def test_a_case_of_another_version_is_compared_and_not_judged(folder):
    """Its axes may have other values there."""
    other = CASES[1].replace("reduce_overhead", "cudagraphs")
    path = folder / "new.jsonl"
    path.write_bytes(content([seal(unsealed(line).replace(CASES[1], other)) for line in LINES]))
    assert run_command("markdown", path)[0] == 0
    assert run_command("compare", path, path)[0] == 0
    with pytest.raises(RunError, match=rf"{path}:1: unknown mode in case id '{other}'"):
        files.read(path)
    options = make_options(folder, replay=str(folder / "old.jsonl"), baseline_run=str(path))
    with pytest.raises(pytest.UsageError, match=rf"{path}:\d+: unknown mode in case id"):
        make_plan(options, needs_environment=False)
