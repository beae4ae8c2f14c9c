"""Describes the plan of a session in the header of pytest's output."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase

from compilegate.output.visible import visible
from compilegate.records.environment import SLOW_GUARDS
from compilegate.session.plan import Plan


def describe(plan: Plan, width: int = 80) -> list[str]:
    """Return the plan in a few lines.

    Args:
        plan: The plan.
        width: Characters of a line; a word that is longer stays whole.
    """
    wrap = textwrap.TextWrapper(
        width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return [part for line in map(visible, _lines(plan)) for part in wrap.wrap(line)]


def _lines(plan: Plan) -> Iterator[str]:
    tier = " and ".join(f"{tier} on {device}" for device, tier in plan.tier.items())
    cases = f"{len(plan.cases)} case{'s' if len(plan.cases) > 1 else ''}"
    yield f"compilegate: tier {tier}, {cases}, seed {plan.options.seed}"
    yield from _globs_without_case(plan)
    if plan.environment is not None:
        names = Counter(f"{device.kind} {device.name}" for device in plan.environment.devices)
        devices = (f"{name} ({number}×)" if number > 1 else name for name, number in names.items())
        yield f"observed: torch {plan.torch_version}, {', '.join(devices)}"
        if plan.environment.python == SLOW_GUARDS:
            yield (
                f"with Python {SLOW_GUARDS}, PyTorch checks guards more slowly, and speedups are "
                "lower: Python 3.13.1 or newer mends it"
            )
    if plan.before is not None:
        yield plan.before.describe()
    if plan.stored is None:
        return
    verb = "replayed" if plan.replays else "resumed"
    observed = f"{len(plan.stored.observations)} of {len(plan.stored.header.planned)} cases"
    cut = "; its last line is incomplete and was dropped" if plan.stored.truncated else ""
    yield f"{verb}: {plan.stored.path}, {observed} observed{cut}"
    if plan.replays and not plan.options.save:
        yield "this session writes no run file: --save NAME writes one"


def _globs_without_case(plan: Plan) -> Iterator[str]:
    """Yield a line for each ``--cases`` that selects nothing, while another selects cases."""
    if plan.stored is not None or plan.shard is not None:  # the case may be elsewhere
        return
    hint = "" if set(plan.tier.values()) == {"full"} else "; try a larger tier: --tier full"
    for glob in plan.options.cases:
        if not any(fnmatchcase(case.id, glob) for case in plan.cases):
            yield f"no case of this session matches --cases {glob!r}{hint}"
