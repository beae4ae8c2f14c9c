"""The checksum that ends each line of a run file, so that a changed byte is noticed.

The last field of a line is ``"crc32"``: the CRC-32 of all bytes before the comma of that field, as
eight hexadecimal digits. CRC-32 notices every change within 32 adjacent bits.
https://docs.python.org/3/library/zlib.html#zlib.crc32
"""

from __future__ import annotations

import zlib
from typing import Literal

_BEGINNING, _END = b',"crc32":"', b'"}'
#: Bytes of the field: its beginning, eight digits and its end.
_LENGTH = len(_BEGINNING) + 8 + len(_END)


def seal(line: str) -> str:
    """Return a record's line with its checksum. A line that has one stays as it is."""
    content = line.encode()
    return line if state(content) != "none" else (content[:-1] + _field(content[:-1])).decode()


def state(line: bytes) -> Literal["none", "right", "wrong"]:
    """Return whether a line has a checksum, and whether it is right.

    Args:
        line: The line without its newline.
    """
    content, field = line[:-_LENGTH], line[-_LENGTH:]
    if not (field.startswith(_BEGINNING) and field.endswith(_END)):
        return "none"
    return "right" if field == _field(content) else "wrong"


def _field(content: bytes) -> bytes:
    return b"%b%08x%b" % (_BEGINNING, zlib.crc32(content), _END)
