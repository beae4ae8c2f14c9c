"""What a killed compiler leaves is removed, and nothing else."""

import subprocess
import time

import pytest

from compilegate.observe.cache_repair import remove_torn


@pytest.fixture
def library(tmp_path):
    """A whole library, in a folder of a cache."""
    path = tmp_path / "ab" / "kernel.main.so"
    path.parent.mkdir()
    words = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(path)]
    subprocess.run(words, input="int kernel() { return 7; }", text=True, check=True)
    return path


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.5, 0.99])
def test_a_library_that_was_cut_short_is_removed(tmp_path, library, share):
    whole = library.read_bytes()
    library.write_bytes(whole[: int(share * len(whole))])
    assert remove_torn(tmp_path, since=time.time() - 60) == [library]
    assert not library.exists()


def test_one_that_is_being_written_stays(tmp_path, library):
    whole = library.read_bytes()
    with library.open("wb") as file:
        file.write(whole[:100])
        file.flush()
        assert remove_torn(tmp_path, since=time.time() - 60) == []
    assert remove_torn(tmp_path, since=time.time() - 60) == [library]


def test_a_whole_one_stays(tmp_path, library):
    assert remove_torn(tmp_path, since=time.time() - 60) == []
    assert library.exists()


def test_other_files_and_older_ones_stay(tmp_path, library):
    (tmp_path / "kernel.cpp").write_text("half of")
    library.write_bytes(b"half of")
    assert remove_torn(tmp_path, since=time.time() + 60) == []
    assert remove_torn(tmp_path / "nowhere", since=0) == []
    assert library.exists()
