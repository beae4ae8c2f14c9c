"""The run files that a session writes: the candidate's, and the baseline's next to it."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from compilegate.records.environment import Environment
from compilegate.records.run import Header
from compilegate.runs.writer import Writer
from compilegate.session.options import Options

#: How the user names another folder of run files.
_ELSEWHERE = "name another folder: -o runs_dir=FOLDER"


@dataclass
class RunFiles:
    """The open run files of a session. The baseline's is an ordinary run.

    Attributes:
        candidate: Writes ``NAME.jsonl``.
        baseline: Writes ``NAME.baseline.jsonl``; None for a run that is not paired.
    """

    candidate: Writer
    baseline: Writer | None = None

    @classmethod
    def create(cls, options: Options, *, paired: bool) -> Self:
        """Create the files of a new run, and lock them.

        Args:
            options: The options of the session.
            paired: Whether it observes or replays a baseline, too.

        Raises:
            RunError: A file exists, or the folder cannot be written to.
        """
        path = options.runs / f"{options.save or _unused_name(options.runs)}.jsonl"
        made = cls(Writer.create(path, _ELSEWHERE))
        if paired:
            try:
                made.baseline = Writer.create(path.with_suffix(".baseline.jsonl"), _ELSEWHERE)
            except BaseException:
                made.close()
                raise
        return made

    @property
    def trouble(self) -> str:
        """Why writing stopped; empty while it works."""
        return self.candidate.trouble or (self.baseline.trouble if self.baseline else "")

    @property
    def baseline_path(self) -> Path | None:
        """The path of the baseline's file; None if there is none."""
        return self.baseline.path if self.baseline else None

    def begin(self, header: Header, baseline: Environment | None) -> None:
        """Write the headers.

        Args:
            header: The candidate's.
            baseline: The environment of the baseline.
        """
        self.candidate.write(header)
        if self.baseline is not None and baseline is not None:
            self.baseline.write(replace(header, environment=baseline, baseline=""))

    def write_baseline(self, *lines: str) -> None:
        """Write records of the baseline. Empty lines are left out."""
        for line in filter(None, lines):
            if self.baseline is not None:
                self.baseline.write(line)

    def close(self) -> None:
        """Close the files, which ends their locks.

        The candidate's is last: it removes the folder that was made for it, if both are empty.
        """
        if self.baseline is not None:
            self.baseline.close()
        self.candidate.close()


def _unused_name(runs: Path) -> str:
    """Return the local time, with a number where a clock that was set back gave it before."""
    now = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S-%f")
    names = itertools.chain([now], (f"{now}-{number}" for number in itertools.count(2)))
    return next(name for name in names if not (runs / f"{name}.jsonl").exists())
