"""What JUnit's report says of a whole session: the decision, and the culprits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from _pytest.junitxml import LogXML, xml_key

from compilegate.culprits.grouping import Culprit, counted
from compilegate.output.visible import visible
from compilegate.session.results import RESULTS
from compilegate.upgrade.decision import decide

#: How the names of the properties begin.
_OURS = ("compilegate", "culprit")


def note(config: pytest.Config) -> None:
    """Set the properties, where a report is asked for.

    pytest writes the report when the session finishes, before the terminal's summary.
    """
    if (junit := config.stash.get(xml_key, None)) is not None:
        results = config.stash[RESULTS]
        decision = "" if results.comparison is None else str(decide(results.comparison))
        replace(junit, decision, results.culprits)


def replace(junit: LogXML, decision: str, culprits: Sequence[Culprit]) -> None:
    """Replace the properties that an earlier call has set.

    Args:
        junit: The report.
        decision: The decision on an upgrade; empty if nothing is compared.
        culprits: The culprits, also of expected failures.
    """
    others = [found for found in junit.global_properties if not found[0].startswith(_OURS)]
    junit.global_properties[:] = others
    if decision:
        junit.add_global_property("compilegate", visible(decision))
    if culprits:
        junit.add_global_property("culprits", counted(culprits) or "none that is unexpected")
        for number, culprit in enumerate(culprits, start=1):
            junit.add_global_property(f"culprit {number}", visible(str(culprit)))


def rewrite(config: pytest.Config) -> None:
    """Write the report again, with the culprits as they are known now."""
    note(config)
    if (junit := config.stash.get(xml_key, None)) is not None:
        junit.pytest_sessionfinish()
