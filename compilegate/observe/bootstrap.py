"""Runs the observer under an interpreter that does not need compilegate installed.

    python -P .../compilegate/observe/bootstrap.py --serve 5

It makes the package ``compilegate`` importable from the folder of this file, and no other package
of that folder: the distributions there belong to another interpreter.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def make_importable() -> None:
    """Import ``compilegate`` from the folder of this file, regardless of ``sys.path``."""
    where = PACKAGE / "__init__.py"
    spec = importlib.util.spec_from_file_location(
        "compilegate", where, submodule_search_locations=[str(PACKAGE)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{where} cannot be imported: is compilegate installed completely?")
    module = importlib.util.module_from_spec(spec)
    sys.modules["compilegate"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    make_importable()
    from compilegate.observe.__main__ import main

    sys.exit(main())
