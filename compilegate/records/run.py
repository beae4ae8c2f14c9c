"""The records that frame a run file: its header, its closing, and the kinds of lines between.

Standard library only: the observed interpreter need not have more than torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from compilegate.records.attribution import Attribution
from compilegate.records.bounded_text import bounded
from compilegate.records.encoding import dumps, fields_of
from compilegate.records.environment import Environment
from compilegate.records.observation import Observation
from compilegate.records.pair import Pair
from compilegate.records.secret_values import masker
from compilegate.records.verdict import Verdict

#: Version of the record format; a reader refuses a newer one. 2 added pairs, 3 checksums
#: and attributions.
SCHEMA = 3
#: From this version on, every line has a checksum. Some lines of earlier files have one, too: those
#: that a later version added.
FIRST_WITH_CHECKSUMS = 3


@dataclass(frozen=True, kw_only=True)
class Header:
    """The first record of a run: arguments, planned cases and environment.

    ``baseline`` names the run file in the same folder that holds the observations under the PyTorch
    in use; it is empty for a run that was not paired. ``files`` holds the words ``--zoo FILE`` and
    ``--budgets FILE`` for all files of the user, by absolute path, from the command line and from
    the ini file; a run of an earlier version has none, and names files in ``arguments`` only.
    ``shard`` is the part of the cases that were selected, as ``2/4``; empty for all of them.
    ``import_folders`` holds the folders of pytest's setting ``pythonpath``, by absolute path.
    """

    schema: int
    created: str
    environment: Environment
    arguments: tuple[str, ...]
    revision: str
    seed: int
    tier: dict[str, str]
    backend: str
    planned: tuple[str, ...]
    baseline: str = ""
    tf32: bool = False
    files: tuple[str, ...] = ()
    shard: str = ""
    import_folders: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Closing:
    """Last record of a run, written only when every planned case was observed."""

    cases: int
    wall_s: float


Record = Header | Observation | Verdict | Pair | Attribution | Closing

RECORD_TYPES: dict[str, type[Record]] = {
    kind.__name__.lower(): kind
    for kind in (Header, Observation, Verdict, Pair, Attribution, Closing)
}


def encode(record: Record) -> str:
    """One line of JSON, without the newline.

    What a model may write is bounded (see :mod:`.bounded_text`), and shows no secret of the
    environment. A header is written in full, since two environments are compared by it.
    """
    content = {"record": type(record).__name__.lower(), **fields_of(record)}
    masked = masker()
    return dumps(content, str if isinstance(record, Header) else lambda it: bounded(masked(it)))
