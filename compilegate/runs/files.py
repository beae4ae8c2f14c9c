"""Run files: one session in one environment as JSON lines, read completely or found by name.

``header, (observation | verdict | pair | attribution)*, closing``. The closing
record shows that every planned case was observed. A line cut short by a crash is dropped and
reported; everything before it counts.
"""

from __future__ import annotations

import difflib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from compilegate.records.attribution import Attribution
from compilegate.records.observation import Observation
from compilegate.records.pair import Pair, latest
from compilegate.records.run import Closing, Header
from compilegate.records.verdict import Verdict
from compilegate.runs.reader import Reader, RunError, parse_case


@dataclass
class Run:
    """A stored run, decoded completely.

    Attributes:
        path: Its file.
        header: What was asked, of what, where.
        observations: By case id; the last of each.
        verdicts: By case id and aspect; the last of each.
        pairs: Two processes each, timed alternately; by case and number.
        attributions: What makes cases worse, by case id; the last of each.
        closing: None if the run is incomplete.
        truncated: Whether the last line was cut short.
    """

    path: Path
    header: Header
    observations: dict[str, Observation] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    pairs: dict[tuple[str, int], Pair] = field(default_factory=dict)
    attributions: dict[str, Attribution] = field(default_factory=dict)
    closing: Closing | None = None
    truncated: bool = False

    @property
    def missing(self) -> list[str]:
        """Planned cases that were not observed."""
        return [case for case in self.header.planned if case not in self.observations]


def read(path: Path) -> Run:
    """Read a run file, compressed (``NAME.jsonl.gz``) or not.

    Raises:
        RunError: It does not exist, is not a run file, was written by a newer version, or has a
            case that does not exist here.
    """
    with Reader(path) as reader:
        run, pairs = Run(path, reader.header), list[Pair]()
        for case in reader.header.planned:
            parse_case(path, 1, case)
        for line in reader.lines():
            parse_case(path, line.number, line.case)
            match line.record():
                case Observation() as observation:
                    run.observations[line.case] = observation
                case Verdict() as verdict:
                    run.verdicts[line.case, verdict.aspect] = verdict
                case Pair() as pair:
                    pairs.append(pair)
                case Attribution() as attribution:
                    run.attributions[line.case] = attribution
    run.pairs = latest(pairs)
    run.closing, run.truncated = reader.closing, reader.truncated
    return run


#: The suffixes of run files: as they are written, and compressed.
_SUFFIXES = (".jsonl", ".jsonl.gz")


def name_of(path: Path) -> str:
    """Return the name of a run, given its file."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def candidate_of(path: Path) -> Path:
    """Return the file of the candidate, given that of a baseline that a session wrote next to it.

    Args:
        path: ``NAME.baseline.jsonl``. Any other path of a run is its own.
    """
    return path.with_name(f"{name_of(path).removesuffix('.baseline')}.jsonl")


def find(name: str, directory: Path) -> Path:
    """Return the file of a run that is given by path or by name.

    Raises:
        RunError: There is no such run; the text names the nearest one.
    """
    given = Path(name)
    named = (directory / f"{name}{suffix}" for suffix in ("", *_SUFFIXES))
    for candidate in (given, *named):
        if _is_there(candidate):
            return candidate
    if given.is_dir():
        raise RunError(f"{name} is a directory; give a run in it by its path")
    known = sorted({name_of(path) for end in _SUFFIXES for path in directory.glob(f"*{end}")})
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"
    if not known:
        hint = "this folder has no runs: give the path that the session printed"
    raise RunError(f"no run {name!r} in {directory}; {hint}")


def _is_there(path: Path) -> bool:
    """Whether a path exists and is no folder. The reader refuses what else is no file.

    Raises:
        RunError: The path cannot be looked up.
    """
    try:
        return not stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a NUL in a name is the last
        return False
    except OSError as error:
        raise RunError(f"cannot read the run file {path}: {error.strerror}") from error
