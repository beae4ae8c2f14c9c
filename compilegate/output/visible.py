r"""The one function that cleans a line before it leaves the process.

Names, messages and recorded text come from models, files and libraries. In a terminal, an escape
sequence moves the cursor or writes the clipboard, and an override of the direction shows other
words than there are. In the log of a workflow, a line that begins with ``::`` or holds ``##[`` is a
command to the runner. Each such character is shown as its escape, such as ``\u001b``, which JSON,
TOML and Python read as the character. All other text stays as it is.

https://www.unicode.org/reports/tr36/#Bidirectional_Text_Spoofing
https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
"""

from __future__ import annotations

import re

#: Control characters but the tab, line separators, characters without width, overrides of the
#: direction, invisible tags and halves of surrogate pairs. The joiners of emoji and of Persian
#: (U+200C, U+200D) are no such characters, nor are letters that are newer than this Python.
_HIDDEN = (
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)
#: Colours that pytest, pygments and Python give to text. Black, backgrounds and concealed text are
#: not among them, because they hide it.
_CODE = r"(?:0?[0-57]|2[2347]|3[1-79]|49|9[0-7])"
COLOUR = rf"\x1b\[(?:{_CODE}(?:;{_CODE})*)?m"

_ANY_HIDDEN = re.compile(_HIDDEN)
_HIDDEN_OR_COLOUR = re.compile(rf"{COLOUR}|{_HIDDEN}")
#: A command to the runner of GitHub Actions: ``::`` after any white space, or ``##[`` anywhere.
#: Azure Pipelines and TeamCity have a word before the bracket.
_COMMAND = re.compile(rf"^(?:\s|{COLOUR})*(?P<colons>::)|(?P<signs>##\w{{0,16}}\[)")


def visible(line: str, before: str = "", *, colours: bool = False) -> str:
    r"""Return a line in which nothing acts: each character that would is shown as its escape.

    A newline in it is shown, too: ``\u000a``. To clean a line twice changes nothing.

    Args:
        line: The line, or the part of it that is written next.
        before: What is on the line already.
        colours: Whether to keep the colours of text.
    """
    pattern = _HIDDEN_OR_COLOUR if colours else _ANY_HIDDEN
    shown = before + pattern.sub(lambda found: _escaped(found[0]), line)
    start = len(before)

    def disarmed(found: re.Match[str]) -> str:
        at = max(found.start(found.lastgroup or 0), start) - found.start()
        return found[0][:at] + _escaped(found[0][at]) + found[0][at + 1 :]

    return _COMMAND.sub(disarmed, shown)[start:]


def visible_lines(text: str) -> str:
    """Return a text of several lines, each of them cleaned. Lines may end as on Windows."""
    return "\n".join(map(visible, text.replace("\r\n", "\n").split("\n")))


def _escaped(text: str) -> str:
    if len(text) > 1:  # a colour
        return text
    number = ord(text)
    return f"\\u{number:04x}" if number < 2**16 else f"\\U{number:08x}"
