"""Observations of a session that runs, packed in memory."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, MutableMapping

from compilegate.records.observation import Observation

#: How hard zlib tries: more takes longer and saves little.
_LEVEL = 1


class PackedObservations(MutableMapping[str, Observation]):
    """Observations by case id. All but the last one that was asked for are compressed.

    That of a large model takes more than a megabyte, and a tenth of that when it is packed. Tests
    ask for one case after the other, so most of them find theirs unpacked. Each change of the case
    takes some milliseconds.
    """

    def __init__(self) -> None:
        self._packed: dict[str, bytes] = {}
        self._last: tuple[str, Observation] | None = None

    def __setitem__(self, case_id: str, observation: Observation) -> None:
        self._packed[case_id] = zlib.compress(pickle.dumps(observation), _LEVEL)
        self._last = case_id, observation

    def __getitem__(self, case_id: str) -> Observation:
        packed = self._packed[case_id]
        if self._last is None or self._last[0] != case_id:
            self._last = case_id, pickle.loads(zlib.decompress(packed))
        return self._last[1]

    def __delitem__(self, case_id: str) -> None:
        del self._packed[case_id]

    def __contains__(self, case_id: object) -> bool:
        return case_id in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)
