"""The addresses of web pages in a text: reports that can have links make links of them."""

from __future__ import annotations

import re
from collections.abc import Callable

#: An address without a user, of characters that need no quotes anywhere, up to the punctuation of
#: the sentence. One word without a path is no host.
ADDRESS = re.compile(
    r"(?<![\w/])https?://(?![^\s/]*@)(?=[\w-]+[.:/]\w)[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::\d+)?"
    r"(?:[/?#](?:[A-Za-z0-9_./~%?=&+#:@-]*[A-Za-z0-9_/~=+#-])?)?",
    re.ASCII,
)


def linked(text: str, shown: Callable[[str], str], quoted: Callable[[str], str]) -> str:
    """Return a text whose addresses are links of HTML.

    Args:
        text: The text. All that is no address of http or https stays a text.
        shown: Escapes a text.
        quoted: Escapes the value of an attribute.
    """
    parts, end = [], 0
    for found in ADDRESS.finditer(text):
        target = f'<a href="{quoted(found[0])}" rel="noopener noreferrer">{shown(found[0])}</a>'
        parts += [shown(text[end : found.start()]), target]
        end = found.end()
    return "".join((*parts, shown(text[end:])))
