"""Folders of pytest's setting ``pythonpath``, for this process and those that it starts."""

import os
import sys

import pytest

from compilegate.processes.import_folders import importable


@pytest.mark.parametrize(
    ("given", "then"),
    [
        (None, "/ours/src:/ours/lib"),
        ("", "/ours/src:/ours/lib"),
        ("/theirs", "/ours/src:/ours/lib:/theirs"),
        ("/theirs:/ours/src", "/ours/lib:/theirs:/ours/src"),
    ],
)
def test_folders_come_first_and_leave_nothing(monkeypatch, given, then):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if given is not None:
        monkeypatch.setenv("PYTHONPATH", given)
    before = list(sys.path)
    with importable(["/ours/src", "/ours/lib"]):
        assert os.environ["PYTHONPATH"] == then
        assert sys.path[-len(before) :] == before
        assert "/ours/lib" in sys.path[: -len(before)]
    assert sys.path == before
    assert os.environ.get("PYTHONPATH") == given


def test_without_folders_nothing_changes(monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with importable([]):
        assert "PYTHONPATH" not in os.environ
