"""Values of variables that hold secrets: no text that leaves the process may show them.

A model downloads its weights with a token, and the text of its exception may have the token. The
name of a variable tells that it holds a secret; its value then is taken out of every text.

Standard library only: the observed interpreter need not have more than torch.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping

from compilegate.records.variables import HIDDEN

#: A word of the name of a variable whose value is secret: ``HF_TOKEN``, ``AWS_SECRET_ACCESS_KEY``.
#: ``GIT_AUTHOR_NAME`` and ``KEYBOARD`` have none.
_NAME = re.compile(
    r"(?:^|[^a-z])(?:(?:TOKEN|SECRET|PASSWORD|PASSPHRASE|API_?KEY|KEY|CREDENTIAL)S?|PASSWD|AUTH|PAT)"
    r"(?:[^a-z]|$)",
    re.IGNORECASE,
)
#: The shortest value that is taken out. A shorter one is part of many words.
_SHORTEST = 6
#: Values that such a variable has where it holds no secret: a switch, a number, a place.
_PLAIN = re.compile(
    r"true|false|none|null|default|enabled?|disabled?|always|never|auto|required|optional|public"
    r"|private|keyring|subprocess|netrc|oauth2?|bearer|digest|kerberos|torch|pytorch|inductor"
    r"|[\d.,:+-]+|(?:[~.]{0,2}|\w:)[/\\].*",
    re.IGNORECASE | re.DOTALL,
)
#: What a text has that is more than a name. Names of cases and of tensors stay as they are.
_MORE = re.compile(r"[\s'\"=:/@]")


def masker(environ: Mapping[str, str] = os.environ) -> Callable[[str], str]:
    """Return a function that takes the secrets of an environment out of a text.

    Args:
        environ: The variables.
    """
    values = {value for name, value in environ.items() if _NAME.search(name) and _is_secret(value)}
    if not values:
        return str
    pattern = _pattern(tuple(sorted(values, key=lambda value: (-len(value), value))))

    def masked(text: str) -> str:
        return pattern.sub(HIDDEN, text) if _MORE.search(text) else text

    return masked


def _is_secret(value: str) -> bool:
    return len(value) >= _SHORTEST and _PLAIN.fullmatch(value) is None


@functools.lru_cache(maxsize=8)
def _pattern(values: tuple[str, ...]) -> re.Pattern[str]:
    """Return what matches each of the values; one of letters alone only as a word of its own."""
    return re.compile(
        "|".join(
            rf"(?<!\w){re.escape(value)}(?!\w)" if value.isalpha() else re.escape(value)
            for value in values
        )
    )
