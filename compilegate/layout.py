"""The paths of compilegate's parts, in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

#: The package. In a checkout, its ``suites``, ``fixtures`` and ``reports`` are symbolic links.
PACKAGE = Path(__file__).resolve().parent
#: The suites, after resolving the symbolic link of a checkout.
SUITES = (PACKAGE / "suites").resolve()
#: The budgets that ship with compilegate.
SHIPPED_BUDGETS = SUITES / "budgets"
#: The script that runs the observer under an interpreter which may lack compilegate.
OBSERVER = PACKAGE / "observe" / "bootstrap.py"
