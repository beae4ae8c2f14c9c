"""Texts without secrets and without the paths of homes: reports are public."""

from __future__ import annotations

import re
from pathlib import Path

from compilegate.records.secret_values import masker
from compilegate.records.variables import HIDDEN

#: The folder of installed packages.
_PACKAGES = re.compile(r"[^\s'\":(]*/site-packages/(?=\w)")
#: A word that goes on, such as *secretive* or ``TokenMixer``, is the name of a model. A number of
#: few digits, as in ``tokens=10``, is a size.
_SECRET = re.compile(
    r"(?i)\b([\w-]*(?:token|secret(?:[_-]?key)?|passw(?:or)?d|api[_-]?key|credential)s?"
    r"(?![a-z])[\w-]*\s*[=:]\s*)(?!\(not stored\)|\d{1,5}(?:[\s),;\]]|$))[^\s&]+"
)
#: The same in the query of an address: ``?key=…&sig=…``.
_QUERY = re.compile(
    r"(?i)([?&](?:[\w-]*[_-])?(?:key|auth|sig(?:nature)?|pat|code)=)(?!\(not stored\))[^\s&#\"']+"
)
#: The same in code, where only a text that is written down is a secret, and no name.
_SECRET_IN_CODE = re.compile(
    r"(?i)((?:token|secret|passw(?:or)?d|api[_-]?key|credential)[\w-]*[\"'\]]*\s*[=:,]\s*)"
    r"([\"'])[^\"'\n]+\2"
)
#: The user and the password of an address, which may be taken out already.
_ADDRESS = re.compile(r"(\w+://)(?:\(not stored\)|[^\s/@])+@")
_KNOWN_TOKEN = re.compile(r"\b(?:gh[pousr]_|github_pat_|hf_|sk-|AKIA)[A-Za-z0-9_-]{8,}")


def cleaned(text: str) -> str:
    """Return a text without secrets, and without the paths of homes and installed packages."""
    return _without_homes(without_secrets(_PACKAGES.sub("", text)))


def without_secrets(text: str) -> str:
    """Return a text without secrets, whose paths are whole: a line for the terminal."""
    text = _QUERY.sub(rf"\g<1>{HIDDEN}", _without_values(text))
    return _SECRET.sub(rf"\g<1>{HIDDEN}", text)


def cleaned_code(text: str) -> str:
    """Return a script without secrets and homes, whose names and numbers all stay."""
    text = _SECRET_IN_CODE.sub(rf"\g<1>\g<2>{HIDDEN}\g<2>", _without_values(text))
    return _without_homes(text)


def _without_values(text: str) -> str:
    """Return a text without what the environment holds, and without what looks like a secret."""
    return _KNOWN_TOKEN.sub(HIDDEN, _ADDRESS.sub(r"\1", masker()(text)))


def _without_homes(text: str) -> str:
    home = str(Path.home())
    if home != "/":
        text = re.sub(rf"{re.escape(home)}(?=[/\s'\":]|$)", "~", text)
    return re.sub(r"/(?:home|Users)/[^/\s'\":]+", "~", text)
