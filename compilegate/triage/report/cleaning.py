"""Texts without secrets and without the paths of homes: reports are public."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from compilegate.records.secret_values import masker
from compilegate.triage.report import secret_literals
from compilegate.triage.report.secrets_in_text import without_named

#: The folder of installed packages.
_PACKAGES = re.compile(r"[^\s'\":(]*/site-packages/(?=\w)")
#: Code within a line.
_QUOTED = re.compile(r"(?<=`)[^`\n]*[\"'][^`\n]*(?=`)")
#: What makes a statement of a line that begins one.
_BODIES = ("", " pass", "\n pass")


def cleaned(text: str, secrets: Collection[str] = ()) -> str:
    """Return a text without secrets, and without the paths of homes and installed packages.

    Args:
        text: The text.
        secrets: Further secrets, which a script had. A mere word among them, such as ``forward``,
            is one that the text may have of its own.
    """
    odd = (value for value in secrets if not value.replace("_", "").isalpha())
    known = {f"SCRIPT_SECRET_{at}": value for at, value in enumerate(odd)}
    return _without_homes(without_secrets(_PACKAGES.sub("", masker(known)(f"{text}\n")[:-1])))


def without_secrets(text: str) -> str:
    """Return a text without secrets, whose paths are whole: a line for the terminal."""
    return without_named("\n".join(map(_with_clean_code, text.split("\n"))))


def cleaned_code(text: str) -> str:
    """Return a script without secrets and homes, whose names and numbers all stay."""
    try:
        text = secret_literals.cleaned(text).code
    except (SyntaxError, ValueError):  # not Python
        text = without_secrets(text)
    return _without_homes(text)


def secrets_in(text: str) -> frozenset[str]:
    """Return what :func:`cleaned_code` takes out of a script."""
    try:
        return secret_literals.cleaned(text).secrets
    except (SyntaxError, ValueError):
        return frozenset()


def _with_clean_code(line: str) -> str:
    """Return a line whose code has no secrets: all of it may be code, or what is in backticks."""
    if "'" not in line and '"' not in line:
        return line
    code = line.strip()
    if (clean := _clean(code)) != code:
        return line.replace(code, clean)
    return _QUOTED.sub(lambda found: _clean(found[0]), line)


def _clean(line: str) -> str:
    for body in _BODIES:
        try:
            return secret_literals.cleaned(f"{line}{body}").code.removesuffix(body)
        except (SyntaxError, ValueError):
            continue
    return line


def _without_homes(text: str) -> str:
    home = str(Path.home())
    if home != "/":
        text = re.sub(rf"{re.escape(home)}(?=[/\s'\":]|$)", "~", text)
    return re.sub(r"/(?:home|Users)/[^/\s'\":]+", "~", text)
