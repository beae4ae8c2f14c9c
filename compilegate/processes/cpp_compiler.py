"""Whether this machine has the C++ compiler that Inductor needs on CPU, and can call it.

It is looked for on the path only, so that a session can say so before it starts any process. The
observing child runs it, and reports its version.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile

_CACHE = "TORCHINDUCTOR_CACHE_DIR"


class CompilerError(ValueError):
    """There is no C++ compiler, or no way to call it. The text says so, and what to do."""


def require(device: str, backend: str) -> None:
    """Refuse cases that Inductor compiles to C++ if the machine has no compiler.

    Inductor calls what the variable ``CXX`` names, else ``g++``. It splits the command as a shell
    does, and quotes no path.

    Args:
        device: The device of the cases.
        backend: The compiler backend.

    Raises:
        CompilerError: There is no compiler, or the command would name a folder in several words.
    """
    if device != "cpu" or backend != "inductor":
        return
    named = os.environ.get("CXX")
    words = shlex.split("g++" if named is None else named)
    if not words or not shutil.which(words[0]):
        found = "g++ is not on the path"
        found = found if named is None else f"CXX is {named!r}, which is no program"
        raise CompilerError(
            f"Inductor compiles C++ on CPU and found no compiler: {found}; install g++ or set CXX"
        )
    _refuse_several_words("TMPDIR", tempfile.gettempdir())
    _refuse_several_words(_CACHE, os.environ.get(_CACHE, ""))


def _refuse_several_words(variable: str, folder: str) -> None:
    """Refuse a folder that Inductor's command for the compiler would split or change."""
    try:
        is_one = shlex.split(folder) in ([], [folder])
    except ValueError:  # a quote that nothing closes
        is_one = False
    if not is_one:
        raise CompilerError(
            f"Inductor cannot compile C++ in {folder!r}, for it does not quote the path; "
            f"set {variable} to a folder without blanks, quotes and backslashes in its path"
        )
