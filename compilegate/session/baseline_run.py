"""The baseline's own run file, next to the candidate's. It is an ordinary run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from compilegate.records.run import Header
from compilegate.runs import files
from compilegate.upgrade.paired_baseline import PairedBaseline


class BaselineRun:
    """Writes ``NAME.baseline.jsonl`` next to ``NAME.jsonl``, or nothing without a baseline.

    Args:
        baseline: The PyTorch in use.
        candidate: Writes the candidate's run file.
    """

    def __init__(self, baseline: PairedBaseline | None, candidate: files.Writer | None) -> None:
        self._writer: files.Writer | None = None
        if baseline is None or candidate is None:
            return
        self._environment = baseline.environment
        path = candidate.path.with_name(f"{candidate.path.stem}.baseline.jsonl")
        resumed = baseline.run if baseline.run and baseline.run.path == path else None
        self._writer = files.Writer(path, resumed)

    @property
    def path(self) -> Path | None:
        """The path of the file; None if there is none."""
        return self._writer.path if self._writer else None

    def begin(self, header: Header) -> None:
        """Write the candidate's header with the baseline's environment."""
        if self._writer is not None:
            self._writer.write(replace(header, environment=self._environment, baseline=""))

    def write(self, *lines: str) -> None:
        """Write records. Empty lines are left out."""
        for line in filter(None, lines):
            if self._writer is not None:
                self._writer.write(line)

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
