"""A run file is written whole, by one session at a time, or the session learns that it is not."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from compilegate.records.run import Closing
from compilegate.runs import writer as writers
from compilegate.runs.files import read
from compilegate.runs.reader import RunError
from compilegate.runs.writer import ROOM, Writer
from tests.unit.disk import limited
from tests.unit.making import CASE_ID, make_header, make_observation, make_verdict

OTHER_ID = "tiny-cpu-infer-f32-default-static"
NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / "nightly.jsonl"


def write(path, *records):
    writer = Writer.create(path)
    for record in records:
        assert writer.write(record)
    writer.close()
    assert not writer.trouble


def test_every_record_is_on_disk_before_the_next_is_made(path):
    writer = Writer.create(path)
    assert writer.write(make_header())
    assert read(path).header == make_header()
    assert writer.write(make_verdict())
    assert list(read(path).verdicts) == [(CASE_ID, "forward")]
    writer.close()


def test_nothing_is_left_of_a_run_without_a_record(path):
    writer = Writer.create(path)
    assert path.exists()
    writer.close()
    assert not path.parent.exists()


def test_a_folder_that_was_there_stays(path):
    path.parent.mkdir()
    Writer.create(path).close()
    assert [*path.parent.iterdir()] == []


# Where nothing can be written.


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "runs").touch()
    for folder in (tmp_path / "runs", tmp_path / "runs" / "of" / "mine"):
        with pytest.raises(RunError, match=r"runs.*: .*; move away the file .*, or choose another"):
            Writer.create(folder / "nightly.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_folder_that_nobody_can_write_to_is_refused():
    """Permissions let root write there, the kernel does not."""
    with pytest.raises(RunError, match=r"cannot write run files to /proc: .*, or choose another"):
        Writer.create(Path("/proc/nightly.jsonl"))


def test_a_read_only_folder_is_refused():
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        if user == 0:
            os.seteuid(NOBODY)
        try:
            with pytest.raises(RunError, match=r": Permission denied; make it writable, or choose"):
                Writer.create(Path(folder, "nightly.jsonl"))
        finally:
            os.seteuid(user)


def test_a_disk_without_room_for_the_first_records_is_refused(path):
    with limited(ROOM - 1), pytest.raises(RunError, match=r"/runs: File too large; raise the lim"):
        Writer.create(path)
    assert not path.parent.exists()


def test_a_run_is_not_resumed_on_a_disk_without_room_and_unharmed(path):
    write(path, make_header())
    before = path.read_text()
    with limited(ROOM - 1), pytest.raises(RunError, match=r"cannot resume .*: File too large"):
        Writer.resume(path)
    assert path.read_text() == before


def test_a_disk_with_room_for_the_first_records_is_accepted(path):
    with limited(ROOM):
        write(path, make_header(), make_observation())
    assert list(read(path).observations) == [CASE_ID]


# Where writing breaks on the way.


def test_a_full_disk_ends_writing_and_leaves_the_records_before(path):
    writer = Writer.create(path)
    writer.write(make_header())
    before = path.read_bytes()
    with limited(len(before) + 100):
        assert not writer.write(make_observation())
    assert writer.trouble == f"{path}: File too large"
    assert not writer.write(make_verdict()), "a record without those before it must not be written"
    assert path.read_bytes() == before
    assert writer.holds_records
    writer.close()
    assert read(path).header == make_header()


def test_nothing_is_left_where_not_even_the_header_can_be_written(path):
    writer = Writer.create(path)
    with limited(10):
        assert not writer.write(make_header())
    writer.close()
    assert not writer.holds_records
    assert not path.parent.exists()


def test_a_half_written_line_that_stays_is_left_out(path, monkeypatch):
    """A disk that fails may not even let the file be shortened."""
    writer = Writer.create(path)
    writer.write(make_header(planned=(CASE_ID, OTHER_ID)))

    def fail(*_):
        raise OSError(5, "Input/output error")

    with limited(path.stat().st_size + 100), monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", fail)
        assert not writer.write(make_observation())
    writer.close()
    assert path.read_bytes()[-1:] != b"\n"
    assert read(path).truncated

    resumed = Writer.resume(path)
    assert resumed.write(make_observation(case=OTHER_ID))
    resumed.close()
    assert not read(path).truncated
    assert list(read(path).observations) == [OTHER_ID]


def test_an_interrupted_record_is_taken_back(path, monkeypatch):
    """The session writes on after Ctrl-C: the next record must begin its own line."""
    writer = Writer.create(path)
    writer.write(make_header())

    def interrupt(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            writer.write(make_observation())
    assert writer.write(make_verdict())
    writer.close()
    run = read(path)
    assert (list(run.observations), list(run.verdicts)) == ([], [(CASE_ID, "forward")])


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_is_removed_while_it_is_written_is_trouble(path, is_replaced):
    writer = Writer.create(path)
    writer.write(make_header())
    path.unlink()
    if is_replaced:
        path.write_text("precious\n")
    assert not writer.write(make_observation())
    writer.close()
    assert writer.trouble == f"{path}: the file was removed or moved while it was written"
    assert not writer.holds_records
    assert not is_replaced or path.read_text() == "precious\n"


def test_a_file_that_is_removed_after_its_last_record_is_trouble(path):
    writer = Writer.create(path)
    writer.write(make_header())
    path.unlink()
    writer.close()
    assert "removed or moved" in writer.trouble


def append(path):
    with path.open("a") as file:
        file.write("something\n")


@pytest.mark.parametrize("change", [append, lambda path: path.write_text("")])
def test_a_file_that_another_program_changes_is_trouble(path, change):
    """A file system without locks lets a second session write it, too."""
    writer = Writer.create(path)
    writer.write(make_header())
    change(path)
    before = path.read_text()
    assert not writer.write(make_observation())
    writer.close()
    assert writer.trouble == f"{path}: another program changed the file while it was written"
    assert path.read_text() == before
    assert writer.holds_records == bool(before)


# One file, one session.


def test_an_existing_file_is_never_written_to(path):
    write(path, make_header())
    before = path.read_text()
    with pytest.raises(RunError, match=r"nightly\.jsonl exists; choose another name"):
        Writer.create(path)
    assert path.read_text() == before


@pytest.mark.parametrize("exists", [False, True])
def test_a_symbolic_link_is_not_followed(path, tmp_path, exists):
    victim = tmp_path / "victim"
    if exists:
        write(victim, make_header())
    path.parent.mkdir()
    path.symlink_to(victim)
    with pytest.raises(RunError, match=r"nightly\.jsonl is a symbolic link; choose another name"):
        Writer.create(path)
    with pytest.raises(RunError, match=r"cannot resume .*: it is a symbolic link; name the file"):
        Writer.resume(path)
    assert victim.exists() == exists
    assert path.is_symlink()


def test_a_file_that_is_being_written_is_refused_with_the_writer(path):
    writer = Writer.create(path)
    writer.write(make_header())
    who = rf"process {os.getpid()} is writing it; wait until it ends"
    with pytest.raises(RunError, match=rf"nightly\.jsonl exists, and {who}, or choose another"):
        Writer.create(path)
    with pytest.raises(RunError, match=rf"cannot write .*nightly\.jsonl: {who}"):
        Writer.resume(path)
    assert writer.write(make_verdict())
    writer.close()
    assert len(path.read_text().splitlines()) == 2


def test_a_run_is_resumed_once_at_a_time(path):
    write(path, make_header())
    first = Writer.resume(path)
    with pytest.raises(RunError, match=rf"process {os.getpid()} is writing it"):
        Writer.resume(path)
    first.close()
    Writer.resume(path).close()


_HOLD = """
import sys, time
from pathlib import Path
from compilegate.runs.writer import Writer
writer = Writer.resume(Path(sys.argv[1]))
print("holds", flush=True)
time.sleep(600)
"""


def test_the_lock_of_a_killed_session_ends_with_it(path):
    write(path, make_header())
    words = [sys.executable, "-c", _HOLD, str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout.readline() == "holds\n"
        with pytest.raises(RunError, match=rf"process {session.pid} is writing it"):
            Writer.resume(path)
        session.send_signal(signal.SIGKILL)
    Writer.resume(path).close()


def test_a_file_system_without_locks_is_written_to_and_reported(path, monkeypatch):
    def refuse(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    writer = Writer.create(path)
    assert not writer.is_locked
    assert writer.write(make_header())
    writer.close()


# Continuing a run.


def test_a_resumed_run_loses_only_the_cut_line(path):
    write(path, make_header(planned=(CASE_ID, OTHER_ID)), make_observation(), make_verdict())
    path.write_text(path.read_text()[:-20])
    before = path.read_text()
    writer = Writer.resume(path)
    assert path.read_text() == before, "a session that adds nothing changes nothing"
    writer.write(make_observation(case=OTHER_ID))
    writer.write(Closing(cases=2, wall_s=1.0))
    writer.close()
    run = read(path)
    assert not run.truncated
    assert list(run.observations) == [CASE_ID, OTHER_ID]
    assert not run.verdicts
    assert run.closing is not None


def test_resuming_a_whole_run_only_adds_to_it(path):
    write(path, make_header(), make_observation())
    before = path.read_text()
    writer = Writer.resume(path)
    writer.write(make_verdict())
    writer.close()
    assert path.read_text().startswith(before)
    assert list(read(path).verdicts) == [(CASE_ID, "forward")]


def test_what_the_probe_of_the_disk_wrote_is_gone(path):
    write(path, make_header())
    assert [item.name for item in path.parent.iterdir()] == ["nightly.jsonl"]
    assert path.stat().st_size < writers.ROOM
