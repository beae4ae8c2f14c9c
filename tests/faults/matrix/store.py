"""The file of a matrix: what was filled so far. A later run fills what is missing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.matrix.verdicts import Filled, Sound


class OtherRunError(Exception):
    """The file holds a matrix of another PyTorch, device or backend."""


@dataclass
class Store:
    """A matrix in a file.

    Attributes:
        about: The torch version, the device, its name and the backend.
        cells: The filled cells.
        twins: What the twins showed, by case.
    """

    about: dict[str, str]
    cells: list[Filled] = field(default_factory=list)
    twins: dict[str, Sound] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Store:
        """Read a file."""
        held = json.loads(file.read_text())
        cells = [Filled(**_tuples(cell)) for cell in held["cells"]]
        twins = [Sound(**_tuples(twin)) for twin in held["twins"]]
        return cls(held["about"], cells, {twin.case: twin for twin in twins})

    @classmethod
    def resume(cls, file: Path, about: dict[str, str]) -> Store:
        """Read a file if it exists, to fill what is missing, and what the machine left undecided.

        Raises:
            OtherRunError: Its cells were filled under another PyTorch, device or backend.
        """
        if not file.exists():
            return cls(about)
        store = cls.read(file)
        if store.about != about:
            raise OtherRunError(f"{file} is about {store.about}, and this run about {about}")
        store.cells = [cell for cell in store.cells if not _ended_early(cell.why)]
        store.twins = {n: twin for n, twin in store.twins.items() if not _ended_early(twin.trouble)}
        return store

    def write(self, file: Path) -> None:
        """Write the file, a cell a line, so that an interruption leaves the old one or the new."""
        cells, twins = (
            ",\n".join(json.dumps(_short(record), ensure_ascii=False) for record in records)
            for records in (self.cells, self.twins.values())
        )
        text = (
            f'{{"about": {json.dumps(self.about)},\n"cells": [\n{cells}],\n"twins": [\n{twins}]}}\n'
        )
        draft = file.with_suffix(".draft")
        draft.write_text(text)
        draft.replace(file)


def _ended_early(why: str) -> bool:
    """Whether the machine ended a case: another try may decide it."""
    return why.removeprefix("the twin: ").startswith(("out_of_memory", "timed_out", "crashed"))


def _short(record: Any) -> dict[str, Any]:
    """Return the fields of a record that are not empty, with figures of three digits."""
    return {
        name: float(f"{value:.3g}") if isinstance(value, float) else value
        for name, value in asdict(record).items()
        if value not in ("", 0.0, (), {}, False) or name in ("outcomes",)
    }


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
