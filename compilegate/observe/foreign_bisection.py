"""Keeps a bisection that somebody else began out of this process.

``CompilerBisector`` notes in Inductor's cache, or in variables, which backend and which part of the
compiler it tries. ``torch.compile`` obeys the note in each process that uses this cache, also long
after the bisection was given up: another backend compiles than the one that is asked for.
"""

from __future__ import annotations

import contextlib
import os

#: How the variables begin that name what a bisection tries.
_VARIABLES = "TORCH_BISECT_"
#: A folder that nobody can make, so it holds no state.
_NOWHERE = f"{os.devnull}/bisection"


def ignore() -> None:
    """Have ``torch.compile`` in this process obey no such state; files stay as they are.

    The folder is the one that the bisector keeps for a bisection inside of one process.
    """
    for name in [name for name in os.environ if name.startswith(_VARIABLES)]:
        del os.environ[name]
    with contextlib.suppress(ImportError):  # torch before 2.6 has none
        from torch._inductor import compiler_bisector

        if (read := getattr(compiler_bisector, "get_env_val", None)) is not None:
            read.cache_clear()
        compiler_bisector.CompilerBisector.in_process_cache = _NOWHERE
        compiler_bisector.CompilerBisector.bisection_enabled = False
