"""Hazards of two versions: what only one of them captures is found, in both directions."""

import pytest

from compilegate.records.hazard import Hazard, Written
from compilegate.records.practice import Practice
from tests.unit.making import make_observation
from tests.unit.runs import compared, effects

BREAKS = Written(breaks=("GB0059",))
REFUSED = Written(breaks=("GB0059",), refused="Unsupported: print")


def observed(*hazards):
    """Observe hazards, each given as what it did."""
    found = tuple(Hazard(torch="2.15.0", **one) for one in hazards)
    return make_observation(practices={"hazards": Practice(hazards=found)})


def hazard(as_written=BREAKS, whole=REFUSED, rewritten=None, name="print"):
    return {
        "name": name,
        "as_written": as_written,
        "whole": whole,
        "rewritten": rewritten or Written(),
    }


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"as_written": Written()}, "print, graph breaks: none → GB0059"),
        ({"whole": Written()}, "print, with fullgraph=True: captured → refused"),
    ],
)
def test_a_hazard_that_one_version_captures_is_worse_or_better(changed, text):
    captured, broken = observed(hazard(**changed)), observed(hazard())
    worse = compared(captured, broken)
    assert (worse.kind, effects(worse)) == ("regressed", [("hazards", "worse")])
    assert worse.changes[0].text == text
    assert compared(broken, captured).kind == "improved"


@pytest.mark.parametrize(
    ("worse", "text"),
    [
        ({"as_written": Written(breaks=("GB0059",), recompiles=2)}, "recompilations: 0 → 2"),
        ({"rewritten": REFUSED}, "rewritten: captured → refused"),
        ({"rewritten": Written(recompiles=1)}, "rewritten, recompilations: 0 → 1"),
    ],
)
def test_recompilations_and_rewrites_are_compared(worse, text):
    found = compared(observed(hazard()), observed(hazard(**worse)))
    assert (found.kind, found.changes[0].text) == ("regressed", f"print, {text}")


@pytest.mark.parametrize(
    "now",
    [
        observed(hazard()),
        observed(hazard(Written(breaks=("GB9999",)))),
        observed(hazard(Written(breaks=("GB0059", "GB0170")))),
        observed(hazard(), hazard(name="of a later catalogue")),
        observed(),
        make_observation(),
    ],
)
def test_other_ids_and_other_hazards_change_nothing(now):
    assert compared(observed(hazard()), now).changes == ()
