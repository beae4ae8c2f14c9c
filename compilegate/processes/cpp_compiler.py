"""Whether this machine has the C++ compiler that Inductor needs on CPU.

It is looked for on the path only, so that a session can say so before it starts any process. The
observing child runs it, and reports its version.
"""

from __future__ import annotations

import os
import shlex
import shutil


class CompilerError(ValueError):
    """There is no C++ compiler. The text says so, and what to do."""


def require(device: str, backend: str) -> None:
    """Refuse cases that Inductor compiles to C++ if the machine has no compiler.

    Inductor calls what the variable ``CXX`` names, else ``g++``.

    Args:
        device: The device of the cases.
        backend: The compiler backend.

    Raises:
        CompilerError: There is no compiler.
    """
    if device != "cpu" or backend != "inductor":
        return
    named = os.environ.get("CXX")
    words = shlex.split("g++" if named is None else named)
    if words and shutil.which(words[0]):
        return
    found = "g++ is not on the path" if named is None else f"CXX is {named!r}, which is no program"
    raise CompilerError(
        f"Inductor compiles C++ on CPU and found no compiler: {found}; install g++ or set CXX"
    )
