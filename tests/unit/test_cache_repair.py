"""Only the truncated libraries that a killed compiler leaves are removed."""

import subprocess
import time

import pytest

from compilegate.observe.cache_repair import remove_truncated


@pytest.fixture
def library(tmp_path):
    """A complete library in a folder of a cache."""
    path = tmp_path / "ab" / "kernel.main.so"
    path.parent.mkdir()
    words = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(path)]
    subprocess.run(words, input="int kernel() { return 7; }", text=True, check=True)
    return path


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.5, 0.99])
def test_a_truncated_library_is_removed(tmp_path, library, share):
    whole = library.read_bytes()
    library.write_bytes(whole[: int(share * len(whole))])
    assert remove_truncated(tmp_path, since=time.time() - 60) == [library]
    assert not library.exists()


def test_a_library_that_is_being_written_stays(tmp_path, library):
    whole = library.read_bytes()
    with library.open("wb") as file:
        file.write(whole[:100])
        file.flush()
        assert remove_truncated(tmp_path, since=time.time() - 60) == []
    assert remove_truncated(tmp_path, since=time.time() - 60) == [library]


def test_a_complete_library_stays(tmp_path, library):
    assert remove_truncated(tmp_path, since=time.time() - 60) == []
    assert library.exists()


def test_other_files_and_older_libraries_stay(tmp_path, library):
    (tmp_path / "kernel.cpp").write_text("half of")
    library.write_bytes(b"half of")
    assert remove_truncated(tmp_path, since=time.time() + 60) == []
    assert remove_truncated(tmp_path / "nowhere", since=0) == []
    assert library.exists()
