"""Dynamo's explanations of graph breaks that it notes without one.

Where Dynamo breaks a graph at a branch, or after a statement that it cannot resume, the break has a
name of a few letters. The explanation is only in a counter of what Dynamo does not support.
"""

from __future__ import annotations

from collections.abc import Collection

_LABEL = "Explanation: "
#: How the name of a branch on a tensor begins, and its text in the counter.
_BRANCH, _OF_BRANCH = "generic_jump", "Data-dependent branching"
#: The name of a statement that Python runs, and what it means where the counter has no other text.
_STEP = "step_unsupported"
_OF_STEP = (
    "Dynamo cannot resume within this statement, so that Python runs all of it. "
    "What breaks the graph is in the statement, or in a function that it calls."
)


def explained(reason: str, noted: Collection[str], unsupported: Collection[str]) -> str:
    """Return the text that explains a graph break; the reason itself if there is no other.

    Args:
        reason: What Dynamo notes of the break.
        noted: What it notes of all breaks.
        unsupported: What it does not support, with explanations.
    """
    if _LABEL in reason:
        return reason
    if reason.startswith(_BRANCH):
        found = [text for text in unsupported if text.startswith(_OF_BRANCH)]
    else:
        others = [text for text in unsupported if text not in noted]
        found = [text for text in others if not text.startswith(_OF_BRANCH)]
    if not found and reason == _STEP:
        return f"{reason}\n  {_LABEL}{_OF_STEP}"
    return found[0] if found else reason
