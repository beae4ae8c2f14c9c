"""Where the parts of compilegate lie, in a checkout and in an installed wheel alike."""

from __future__ import annotations

from pathlib import Path

#: The package. In a checkout, its ``suites``, ``fixtures`` and ``reports`` are symbolic links.
PACKAGE = Path(__file__).resolve().parent
#: The suites, wherever a symbolic link leads.
SUITES = (PACKAGE / "suites").resolve()
#: The budgets that ship with compilegate.
SHIPPED_BUDGETS = SUITES / "budgets"
#: Runs the observer under an interpreter that need not have compilegate installed.
OBSERVER = PACKAGE / "observe" / "bootstrap.py"
