"""The folder for temporary files of a child, which is removed with all that is in it.

A model may fill it, take its permissions away or delete it. What a killed case leaves goes with it:
its cold compile cache, and the files of compilers that died with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

#: The variable with Inductor's cache that children share, also while a case has an empty one.
SHARED_CACHE = "COMPILEGATE_SHARED_CACHE"


def make(where: Path) -> Path:
    """Make a folder.

    Args:
        where: The folder to make it in, which is made if it does not exist.

    Raises:
        OSError: It cannot be made.
    """
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="", dir=where))


def enter(folder: Path) -> None:
    """Have this process and those that it starts keep temporary files in a folder.

    By default Inductor's cache lies among the temporary files, and other children share it. It
    stays where it is.
    """
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    os.environ[SHARED_CACHE] = cache_dir()  # it sets TORCHINDUCTOR_CACHE_DIR
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def remove(folder: Path) -> None:
    """Remove a folder, as far as it can be removed."""
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
    for path, names, _ in os.walk(folder):  # each folder is unlocked before it is entered
        for name in names:
            inner = os.path.join(path, name)
            with contextlib.suppress(OSError):
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
