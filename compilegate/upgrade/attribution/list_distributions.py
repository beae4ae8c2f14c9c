"""Print what an interpreter has installed, as one line of JSON.

:mod:`compilegate.upgrade.attribution.distributions` runs this file under the interpreter in
question, which may lack compilegate. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import site
import sys
from email.parser import HeaderParser
from importlib import metadata


def _distributions() -> dict[str, dict[str, object]]:
    """Return every distribution that this interpreter imports from, by normalised name."""
    found: dict[str, dict[str, object]] = {}
    for distribution in metadata.distributions():
        text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
        head = HeaderParser().parsestr(text.partition("\n\n")[0])
        if not (name := head["Name"]) or not (version := head["Version"]):
            continue
        source = json.loads(distribution.read_text("direct_url.json") or "{}")
        record = next(
            (file for file in distribution.files or () if file.name == "RECORD"),
            None,
        )
        found.setdefault(
            re.sub(r"[-_.]+", "-", name).lower(),
            {
                "version": version,
                "requires": head.get_all("Requires-Dist", []),
                "folder": os.path.realpath(str(distribution.locate_file(""))),
                "record": str(record.locate()) if record is not None else "",
                "installer": (distribution.read_text("INSTALLER") or "").strip(),
                "is_editable": bool(source.get("dir_info", {}).get("editable")),
            },
        )
    return found


def _folders() -> list[str]:
    """Return the folders of this interpreter's own distributions, the first on the path first."""
    own = site.getsitepackages([sys.prefix])
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    used = [os.path.realpath(folder) for folder in [*users, *own] if folder in sys.path]
    return list(dict.fromkeys(used))


print(
    json.dumps(
        {
            "distributions": _distributions(),
            "folders": _folders(),
            "python": [*sys.version_info[:3]],
            "base": getattr(sys, "_base_executable", "") or sys.executable,
            "sees_base": any(
                folder in sys.path for folder in site.getsitepackages([sys.base_prefix])
            )
            and sys.prefix != sys.base_prefix,
        }
    )
)
