"""Shows a warning once that a process wrote again and again.

Python itself shows a warning once per line of code. It forgets which it has shown whenever a filter
of warnings changes, as PyTorch does each time that it compiles.
"""

from __future__ import annotations

import re
from collections import Counter

_HEAD = r"^\S[^\n]*:\d+: \w*Warning: [^\n]*\n"
#: The rest of a message of C++ that has several lines, such as the stack of anomaly detection.
_OF_CPP = rf"(?:(?:(?!{_HEAD})[^\n]*\n){{0,60}}? ?\(Triggered internally at [^\n]*\n)?"
#: A warning as Python writes it: place and message, and the indented line of code if it is known.
_WARNING = re.compile(
    rf"{_HEAD}{_OF_CPP}(?:(?:(?!{_HEAD})[^\n]*\n){{0,8}}?  \S[^\n]*\n)?",
    re.MULTILINE,
)


def each_warning_once(text: str) -> str:
    """Return a text in which each warning stands once, with the number of times that it came."""
    lines = text if text.endswith("\n") else f"{text}\n"
    times = Counter(_WARNING.findall(lines))

    def shown(found: re.Match[str]) -> str:
        count = times.pop(found[0], 0)
        if not count:
            return ""
        return found[0] if count == 1 else f"{found[0]}  (written {count} times)\n"

    return _WARNING.sub(shown, lines)[: None if text.endswith("\n") else -1]
