"""The state of a run: a file of JSON lines, from which a stopped run goes on."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from pathlib import Path

import msgspec

from compilegate.fuzzing.outcome import Kind
from compilegate.fuzzing.program import Program
from compilegate.runs import lock

#: The name of the file in the folder of a run.
FILE = "state.jsonl"


class StateError(ValueError):
    """The folder holds another run. The text says what differs, and what to do."""


class Header(msgspec.Struct, frozen=True, tag="header", tag_field="record"):
    """What a run depends on. A run goes on only with the same.

    Attributes:
        seed: The seed of all programs.
        inductor_share: The share of programs that Inductor compiles.
        torch: The version of PyTorch.
        device: Where programs are compiled and called.
    """

    seed: int
    inductor_share: float
    torch: str
    device: str = "cpu"


class Done(msgspec.Struct, frozen=True, tag="program", tag_field="record"):
    """A program that was judged.

    Attributes:
        number: Its number.
        backend: The backend that compiled it.
        word: What became of it, *unstable* if it fails with few data only, *again* if it shows a
            culprit that was found before.
        why: What was seen.
        seconds: How long it took, with the reduction.
        finding: The number of the finding that it shows again; 0 if it shows none.
    """

    number: int
    backend: str
    word: str
    why: str = ""
    seconds: float = 0.0
    finding: int = 0


class Finding(msgspec.Struct, frozen=True, tag="finding", tag_field="record"):
    """A confirmed failure.

    Attributes:
        index: Its number, from 1.
        number: The number of the program that showed it.
        kind: How compiled code is wrong.
        stage: The backend of the ladder that first shows it.
        line: The complaint about the reduced program.
        what: For errors: class and message.
        program: The reduced program.
        seed: The seed of the data.
        alone: Whether its script shows it in a fresh interpreter with torch alone.
    """

    index: int
    number: int
    kind: Kind
    stage: str
    line: str
    what: str
    program: Program
    seed: int
    alone: bool

    @property
    def culprit(self) -> tuple[str, str, frozenset[str]]:
        """What failures of one cause share: stage, kind, and the operators left."""
        return self.stage, self.what or self.kind, frozenset(self.program.operators)


Record = Header | Done | Finding


class State:
    """Keeps what was done, in memory and on disk. Workers may share it.

    Args:
        folder: The folder of the run.
        header: What the run depends on.

    Raises:
        StateError: The folder holds another run, or another process writes to it.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        self._lock = threading.Lock()
        self._done: set[int] = set()
        self._next = self._indices = 0
        self.words: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.by_backend: Counter[str] = Counter()
        self.findings: list[Finding] = []
        self.again: Counter[int] = Counter()
        path = folder / FILE
        self._file = path.open("a", encoding="utf-8")
        try:
            self._resume(path, header)
        except BaseException:
            self._file.close()
            raise

    def _resume(self, path: Path, header: Header) -> None:
        """Lock the file, and take what it holds of this run."""
        try:
            lock.take(self._file.fileno())
        except lock.HeldError as error:
            raise StateError(f"another run writes {path}; choose another --output") from error
        known = _read(path)
        if known and known[0] != header:
            raise StateError(
                f"{path} is of another run, with {_differing(known[0], header)}; "
                "choose another --output"
            )
        for record in known[1:]:
            self._take(record)
        if not known:
            self._write(header)

    def numbers(self, count: int) -> list[int]:
        """Return the numbers of the next programs that were not judged."""
        found: list[int] = []
        with self._lock:
            while len(found) < count:
                if self._next not in self._done:
                    found.append(self._next)
                self._next += 1
        return found

    def add(self, record: Done | Finding) -> None:
        """Keep a record."""
        with self._lock:
            self._take(record)
            self._write(record)

    def next_index(self) -> int:
        """Return the number of the next finding. No other worker gets it."""
        with self._lock:
            self._indices += 1
            return self._indices

    def known(self, kind: str, stage: str, what: str, operators: set[str]) -> Finding | None:
        """Return the finding whose culprit is among some operators; None if none is."""
        with self._lock:
            for one in self.findings:
                same = (one.stage, one.what or one.kind) == (stage, what or kind)
                if same and (what or {*one.program.operators} <= operators):
                    return one
        return None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _take(self, record: Record) -> None:
        match record:
            case Done():
                self._done.add(record.number)
                self.words[record.word] += 1
                self.by_backend[record.backend] += 1
                self.seconds[record.backend] += record.seconds
                if record.finding:
                    self.again[record.finding] += 1
            case Finding():
                self.findings.append(record)
                self._indices = max(self._indices, record.index)

    def _write(self, record: Record) -> None:
        self._file.write(msgspec.json.encode(record).decode() + "\n")
        self._file.flush()


def _read(path: Path) -> list[Record]:
    """Return the records of a file; a line that a killed process left unfinished is dropped."""
    if not path.is_file():
        return []
    found: list[Record] = []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    for line in whole.split("\n")[:-1]:  # JSON may hold other ends of lines
        found.append(msgspec.json.decode(line, type=Record))
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return found


def _differing(known: Record, header: Header) -> str:
    """Say in words what differs between the run on disk and the one that is asked for."""
    if not isinstance(known, Header):
        return "no header"
    pairs = zip(header.__struct_fields__, msgspec.structs.astuple(known), strict=True)
    return " and ".join(
        f"{name if name == 'torch' else '--' + name.replace('_', '-')} {was}, "
        f"not {getattr(header, name)}"
        for name, was in pairs
        if was != getattr(header, name)
    )
