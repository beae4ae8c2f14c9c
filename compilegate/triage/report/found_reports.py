"""The file of known culprits that a triage writes, and which triage a stored run had."""

from __future__ import annotations

from pathlib import Path

#: The file by which reports name what a triage found, and join what it joined.
FILE = "culprits.toml"
#: Where reports are kept, next to the folder of runs.
FOLDER = ".triage"


def head(created: str) -> str:
    """Return the first line of the file.

    Args:
        created: When the run was begun, as its header says.
    """
    return f"# what was found in the run of {created}\n"


def of_run(path: Path, created: str) -> list[Path]:
    """Return the files that triages of a run have written, the newest first.

    It is looked for where a session and where the command writes it.

    Args:
        path: The run.
        created: When it was begun: another run may have had its name.
    """
    name = path.name.partition(".")[0]
    parents = dict.fromkeys([path.resolve().parent.parent / FOLDER, Path.cwd() / FOLDER])
    found = [file for parent in parents for file in parent.glob(f"{name}*/{FILE}")]
    own = [one for one in found if one.read_text(encoding="utf-8").startswith(head(created))]
    return sorted(own, key=lambda file: file.stat().st_mtime, reverse=True)
