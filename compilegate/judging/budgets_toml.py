"""Reads budgets files; its errors name the file and the line.

They are TOML, of two kinds of entries::

    [[budget]]
    model = "resnet*"            # selectors: model, the axes of a case; globs allowed
    device = "cpu"
    hardware = "AMD EPYC*"       # thresholds hold on this processor or GPU only …
    host = "AMD EPYC* (16 cores)"    # … and in a machine with this processor and these cores
    min_speedup = 1.1

    [[budget]]
    case = "gpt2-cpu-train-f32-default-auto"   # the same as naming its model and every axis
    recompiles = 1

    [[expected_failure]]
    model = "swin_v2_t"
    aspect = "forward"           # or a list; or stage = "compile", which covers every aspect
    reason = "does not compile"
    issue = "https://github.com/pytorch/pytorch/issues/179135"
    torch = ">=2.10,<2.11"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from compilegate.judging.aspects import ASPECTS
from compilegate.judging.budget import KEYS, AllowedBreak, KeyKind
from compilegate.judging.budgets import SELECTORS, BudgetError, Budgets, Entry, Machine
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.records.case import AXES, Case, UnknownNameError
from compilegate.records.observation import Stage
from compilegate.zoo import registry

_NUMBER = (int, float)
#: The type of a key's value, and how a message describes it.
_VALUES: dict[KeyKind, tuple[type | tuple[type, ...], str]] = {
    "count": (int, "a whole number, at least 0"),
    "number": (_NUMBER, "a number, at least 0"),
    "texts": (list, "a list of strings"),
    "breaks": (list, "a list of tables {reason, place}"),
}
#: What may choose cases in an entry; the id of a case stands for all selectors.
_CHOOSING = ("case", *SELECTORS)
#: What an entry may say about the machine that its thresholds are for.
_MACHINE = tuple(field.name for field in fields(Machine))
#: Keys that files for earlier versions of compilegate may have, and what to do about them.
_REPLACED = {
    "max_call_overhead_us": "microseconds hold on one machine only: leave it out, or write "
    "max_call_overhead = 5, in empty compiled calls of the machine that runs",
}
_EXPECTED_KEYS = ("aspect", "stage", "reason", "issue", "torch", "match", "strict")
_STAGES = (*get_args(Stage), "crash")


def read(files: Sequence[Path], shipped: Sequence[Path] = ()) -> Budgets:
    """Read the budgets of some files.

    Args:
        files: The user's, from the lowest layer to the highest.
        shipped: The shipped ones, which are one layer below them.

    Raises:
        BudgetError: A file is missing or wrong.
    """
    layers = [*((0, file) for file in shipped), *enumerate(files, start=1)]
    entries = (entry for layer, file in layers for entry in _entries(file, layer))
    return Budgets([_for_shipped_models(entry) for entry in entries])


def _for_shipped_models(entry: Entry) -> Entry:
    """Limit a shipped entry for some models to those of the shipped zoo.

    Its glob was written for them: ``gh*`` names known bugs, and no ``ghostnet`` of a user. A model
    of a user never has the whole name of a shipped one.
    """
    glob = entry.selectors.get("model", "*")
    if entry.layer or glob == "*" or not any(character in glob for character in "*?["):
        return entry
    return replace(entry, models=frozenset(m for m in registry.load() if fnmatchcase(m, glob)))


def _entries(file: Path, layer: int) -> Iterator[Entry]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BudgetError(
            f"cannot read the budgets file {file}: {reason}; check --budgets and the ini setting"
        ) from error
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        place = f"{file}:{line[1]}" if line else str(file)
        raise BudgetError(f"{place}: malformed TOML: {error}") from error
    for kind in tables:
        if kind not in ("budget", "expected_failure"):
            raise BudgetError(
                f"{file}: {UnknownNameError('table', kind, ['budget', 'expected_failure'])}"
            )
    for kind, entries in tables.items():
        if not isinstance(entries, list):
            raise BudgetError(
                f"{file}: write [[{kind}]] in double brackets: it is a list of tables"
            )
        heads = list(re.finditer(rf"^[ \t]*\[\[ *{kind} *\]\]", text, re.MULTILINE))
        if len(heads) != len(entries):
            raise BudgetError(f"{file}: begin each entry with [[{kind}]] on a line of its own")
        for table, head in zip(entries, heads, strict=True):
            where = _Where(file, text, head.start())
            if kind == "budget":
                yield _budget_entry(table, layer, where)
            else:
                yield from _expected_entries(table, layer, where)


@dataclass(frozen=True)
class _Where:
    """The position of an entry or of one of its keys, as ``file:line``."""

    file: Path
    text: str
    start: int

    def __str__(self) -> str:
        return f"{self.file}:{self._line(self.start)}"

    def of(self, key: str) -> str:
        found = re.compile(rf"^[ \t]*{re.escape(key)}\s*=", re.MULTILINE).search(
            self.text, self.start
        )
        return f"{self.file}:{self._line(found.start() if found else self.start)}"

    def _line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1


def _selectors(table: dict[str, Any], where: _Where) -> dict[str, str]:
    if "case" in table:
        return _selectors_of_case(table, where)
    chosen = {}
    for axis in SELECTORS:
        if axis not in table:
            continue
        glob = table.pop(axis)
        if not isinstance(glob, str):
            raise BudgetError(f"{where.of(axis)}: {axis} = {glob!r}: expected a string")
        known = AXES.get(axis, ())
        if known and not any(fnmatchcase(value, glob) for value in known):
            raise BudgetError(f"{where.of(axis)}: {UnknownNameError(axis, glob, known)}")
        chosen[axis] = glob
    return chosen


_SEVERAL = f"to match several cases, name {', '.join(SELECTORS[:-1])} or {SELECTORS[-1]}"


def _selectors_of_case(table: dict[str, Any], where: _Where) -> dict[str, str]:
    case_id = table.pop("case")
    if not isinstance(case_id, str):
        raise BudgetError(f"{where.of('case')}: case = {case_id!r}: expected a string")
    if others := [axis for axis in SELECTORS if axis in table]:
        raise BudgetError(
            f"{where.of('case')}: case already names the {others[0]}: leave out one of the two"
        )
    try:
        case = Case.parse(case_id)
    except ValueError as error:
        several = "" if isinstance(error, UnknownNameError) else f"; {_SEVERAL}"
        raise BudgetError(f"{where.of('case')}: {error}{several}") from error
    return {axis: getattr(case, axis) for axis in SELECTORS}


def _budget_entry(table: dict[str, Any], layer: int, where: _Where) -> Entry:
    table = dict(table)
    selectors = _selectors(table, where)
    machine = {key: table.pop(key, "") for key in _MACHINE}
    for key, glob in machine.items():
        if not isinstance(glob, str):
            raise BudgetError(f"{where.of(key)}: {key} = {glob!r}: expected a string")
    for key, value in table.items():
        if key in _REPLACED:
            raise BudgetError(f"{where.of(key)}: {key}: {_REPLACED[key]}")
        if key not in KEYS:
            raise BudgetError(
                f"{where.of(key)}: {UnknownNameError('key', key, [*KEYS, *_CHOOSING, *_MACHINE])}"
            )
        kind, expected = _VALUES[KEYS[key]]
        right = isinstance(value, kind) and not isinstance(value, bool)
        if not right or (isinstance(value, _NUMBER) and not value >= 0):
            raise BudgetError(f"{where.of(key)}: {key} = {value!r}: expected {expected}")
    if "graph_breaks" in table:
        table["graph_breaks"] = tuple(_allowed_break(b, where) for b in table["graph_breaks"])
    for key in [key for key in table if KEYS[key] == "texts"]:
        texts = table[key]
        if not all(isinstance(text, str) and text for text in texts):
            raise BudgetError(f"{where.of(key)}: {key} = {texts!r}: expected {_VALUES['texts'][1]}")
        table[key] = tuple(texts)
    return Entry(selectors, table, Machine(**machine), layer, str(where))


def _allowed_break(table: Any, where: _Where) -> AllowedBreak:
    names = [f.name for f in fields(AllowedBreak)]
    if (
        not isinstance(table, dict)
        or not table
        or not all(isinstance(v, str) for v in table.values())
    ):
        raise BudgetError(
            f"{where.of('graph_breaks')}: graph_breaks: expected tables {{reason = …, place = …}}"
        )
    for key in table:
        if key not in names:
            raise BudgetError(
                f"{where.of('graph_breaks')}: graph_breaks: {UnknownNameError('key', key, names)}"
            )
    return AllowedBreak(**table)


def _expected_entries(table: dict[str, Any], layer: int, where: _Where) -> Iterator[Entry]:
    """Yield the entry of each aspect that a table lists."""
    match table:
        case {"aspect": [_, *_] as aspects}:
            for aspect in aspects:
                yield _expected_entry({**table, "aspect": aspect}, layer, where)
        case _:
            yield _expected_entry(table, layer, where)


def _expected_entry(table: dict[str, Any], layer: int, where: _Where) -> Entry:
    table = dict(table)
    selectors = _selectors(table, where)
    for key, value in table.items():
        if key not in _EXPECTED_KEYS:
            raise BudgetError(
                f"{where.of(key)}: {UnknownNameError('key', key, [*_EXPECTED_KEYS, *_CHOOSING])}"
            )
        kind, expected = (bool, "true or false") if key == "strict" else (str, "a string")
        if not isinstance(value, kind):
            raise BudgetError(f"{where.of(key)}: {key} = {value!r}: expected {expected}")
    if not table.get("reason"):
        raise BudgetError(f"{where}: an expected failure needs a reason")
    if ("aspect" in table) == ("stage" in table):
        raise BudgetError(f"{where}: an expected failure names either its aspect or its stage")
    for key, known in (("aspect", ASPECTS), ("stage", _STAGES)):
        if key in table and table[key] not in known:
            raise BudgetError(f"{where.of(key)}: {UnknownNameError(key, table[key], known)}")
    try:
        SpecifierSet(table.get("torch", ""))
    except InvalidSpecifier as error:
        raise BudgetError(
            f"{where.of('torch')}: torch = {table['torch']!r}: expected a range, >=2.10,<2.12"
        ) from error
    try:
        re.compile(table.get("match", ""))
    except re.error as error:
        raise BudgetError(
            f"{where.of('match')}: match = {table['match']!r}: not a regular expression: {error}"
        ) from error
    return Entry(
        selectors, {}, Machine(), layer, str(where), ExpectedFailure(**table, where=str(where))
    )
