"""What looks like a secret, and texts without it: reports and the texts within a script."""

from __future__ import annotations

import re

from compilegate.records.secret_values import masker
from compilegate.records.variables import HIDDEN

#: Stands for what an f-string computes: a space, so that no secret goes on across it.
COMPUTED = "\x1f"

#: What a name has that holds a secret.
_WORDS = (
    r"token|secret(?:[_-]?key)?|passw(?:or)?d|passphrase|credential"
    r"|(?:api|access|private|signing|account)[_-]?key"
)
#: A value that was taken out already, also in quotes and brackets.
_GONE = r"[\"'bfr(\[{]*\(not stored\)"
#: A word that goes on, such as *secretive* or ``TokenMixer``, is the name of a model. A number of
#: few digits, as in ``tokens=10``, is a size.
_NAMED = re.compile(
    rf"(?i)\b([\w-]*(?:{_WORDS})s?"
    rf"(?![a-z])[\w-]*[^\S{COMPUTED}]*[=:](?!:)[^\S{COMPUTED}]*)"
    rf"(?!{_GONE}|(?:None|True|False)\b|\d{{1,5}}(?:[\s),;\]]|$))[^\s&]+"
)
#: The same in the query of an address: ``?key=…&sig=…``. A signed address has a part of it.
_QUERY = re.compile(
    r"(?i)((?:(?:[?&]|&amp;)(?:[\w-]*[_-])?(?:key|auth|sig(?:nature)?|pat|code)"
    r"|\bx-(?:amz|goog)-(?:signature|credential|security-token))=)(?!\(not stored\))[^\s&#\"'`)]+"
)
#: The same in the header of a request. What has no digit is a word.
_BEARER = re.compile(r"(?i)(\bbearer\s+|\bauthorization:\s*\w+\s+)(?=\S*\d)[\w.~+/=-]{8,}")
#: The user and the password of an address, which may be taken out already.
_ADDRESS = re.compile(r"(\w+://)(?:\(not stored\)|[^\s/@])+@")
#: What services give out: GitHub, Hugging Face, OpenAI, Stripe, AWS, Slack, GitLab, Google, npm,
#: PyPI; a web token of three parts; the address of a hook; a private key.
_ISSUED = re.compile(
    r"\b(?:gh[pousr]_|github_pat_|hf_|[sr]k[-_]|AKIA|ASIA|xox[a-z]-|xapp-|glpat-|AIza|npm_|pypi-)"
    r"[A-Za-z0-9_-]{8,}"
    r"|\beyJ[\w-]{4,}\.[\w-]{4,}(?:\.[\w-]*)?"
    r"|(?<=hooks\.slack\.com/)services/[\w/]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)


def without_values(text: str) -> str:
    """Return a text without what the environment holds, and without what looks like a secret."""
    masked = masker()(f"{text}\n")[:-1]  # a text of one word, too, which is no name here
    return _ISSUED.sub(HIDDEN, _BEARER.sub(rf"\g<1>{HIDDEN}", _ADDRESS.sub(r"\1", masked)))


def without_named(text: str) -> str:
    """Return a text without secrets, as :func:`without_values`, and without those it names."""
    text = _QUERY.sub(rf"\g<1>{HIDDEN}", without_values(text))
    return _NAMED.sub(rf"\g<1>{HIDDEN}", text)
