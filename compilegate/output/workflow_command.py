"""Commands to the runner of a GitHub workflow, escaped as it reads them.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from compilegate.output.visible import visible_lines

_IN_MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY = _IN_MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})


def error(title: str, message: str) -> str:
    """Return the command that shows an error next to the workflow's run.

    Args:
        title: Its title.
        message: Its text, which may have several lines.
    """
    title, message = visible_lines(title), visible_lines(message)
    return f"::error title={title.translate(_IN_PROPERTY)}::{message.translate(_IN_MESSAGE)}"
