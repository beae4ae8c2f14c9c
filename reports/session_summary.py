"""The lines under the title of a session: what failed, what is open, where the time went."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from compilegate.culprits.grouping import Culprit, counted
from compilegate.output.visible import visible
from compilegate.reports import case_groups, culprit_groups
from compilegate.reports.case_groups import CaseGroup
from compilegate.reports.case_result import CaseResult
from compilegate.reports.text import count, cut, duration, wrapped

#: How many cases the command names that observes them again.
_NAMED = 6
#: How many cases are shown that a stop of the session interrupted. Who resumes the run may want to
#: leave them out.
_INTERRUPTED = 10
#: How many groups of inconclusive verdicts an aspect shows: a busy machine may affect all cases.
_SHOWN = 10
#: How many lines a culprit, or a group of inconclusive cases, may have.
_LINES = 5
#: How summaries begin of what another observation does not settle.
_STAYS = ("blind", "tie")
#: How many known culprits are shown whose failures are expected.
_EXPECTED = 3


@dataclass(frozen=True)
class Effort:
    """The time that a session spent.

    Attributes:
        wall_s: Seconds from its beginning to its end.
        spent_s: What each observation took, in seconds by purpose: under both versions in an
            upgrade; none of a stored run.
        workers: How many processes observed cases at the same time.
        unfinished: Cases that did not end: their ids, and the seconds that were spent on each.
    """

    wall_s: float
    spent_s: Sequence[Mapping[str, float]] = ()
    workers: int = 1
    unfinished: Mapping[str, float] = field(default_factory=dict)

    @property
    def unfinished_s(self) -> float:
        """Seconds that were spent on cases that did not end."""
        return sum(self.unfinished.values())


def summary_lines(
    results: Mapping[str, CaseResult],
    culprits: Sequence[Culprit],
    width: int,
    session: str,
    page: str,
) -> Iterator[str]:
    """Yield the lines of each culprit and each group of inconclusive cases, under its aspect.

    Args:
        results: The results of all planned cases.
        culprits: The culprits of all failures.
        width: Characters of a line.
        session: The command of a session of all suites, with the user's files.
        page: The command that shows every verdict of the run.
    """
    # The table of a comparison has the aspect *upgrade*.
    red = [culprit for culprit in culprits if culprit.aspect != "upgrade"]
    if title := counted(red):
        yield f"{title}:"
    open_groups = _across_models(case_groups.of_verdicts(results, ("inconclusive",)))
    for outcome, groups in (
        ("failed", culprit_groups.groups(red)),
        ("inconclusive", open_groups),
    ):
        aspects = dict.fromkeys(group.aspect for group in groups)
        aspects.pop("upgrade", None)
        for aspect in aspects:
            heading = aspect or "all aspects"
            yield f"{heading}, inconclusive:" if outcome == "inconclusive" else f"{heading}:"
            shown = [group for group in groups if group.aspect == aspect]
            lines = [_lines(group, width) for group in shown]
            if outcome == "inconclusive" and len(lines) > _SHOWN:
                lines[_SHOWN:] = [[f"  … and {len(lines) - _SHOWN} more; to see each: {page}"]]
            yield from (line for found in lines for line in found)
    yield from _expected_lines(culprit_groups.groups(culprits, expected=True), width, page)
    yield from _again(results, session)


def _expected_lines(groups: Sequence[CaseGroup], width: int, page: str) -> Iterator[str]:
    """Yield the known culprits whose failures are expected, the most frequent first."""
    if groups:
        cases = len({case for group in groups for case in group.cases})
        yield f"as expected, {count(len(groups), 'known culprit')} in {count(cases, 'case')}:"
        yield from (line for group in groups[:_EXPECTED] for line in _lines(group, width))
    if len(groups) > _EXPECTED:
        yield f"  … and {len(groups) - _EXPECTED} more; to see each: {page}"


def _lines(group: CaseGroup, width: int) -> list[str]:
    """Return a group in as many lines as it needs, up to a few: its report or reason is last."""
    lines = wrapped(visible(f"  {group.who}: {group.text}"), width)
    if len(lines) <= _LINES:
        return lines
    return [*lines[: _LINES - 1], cut(f"{lines[_LINES - 1]} …", width)]


def _across_models(groups: Sequence[CaseGroup]) -> list[CaseGroup]:
    """Join groups whose texts differ in numbers only: they are likely to have one cause."""
    joined: dict[tuple[str, str], CaseGroup] = {}
    for group in groups:
        key = group.aspect, re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "#", group.text)
        seen = joined.get(key)
        joined[key] = replace(seen, cases=(*seen.cases, *group.cases)) if seen else group
    return list(joined.values())


def _again(results: Mapping[str, CaseResult], session: str) -> Iterator[str]:
    """Yield the command that may settle inconclusive verdicts; blind tensors and ties stay."""
    cases = [
        f"--cases {case_id}"
        for case_id, result in results.items()
        if any(
            verdict.outcome == "inconclusive" and not verdict.summary.startswith(_STAYS)
            for verdict in result.verdicts.values()
        )
    ]
    if cases:
        which = f" (the first {_NAMED} of {len(cases)})" if len(cases) > _NAMED else ""
        yield f"observe again on an idle machine{which}: {session} {' '.join(cases[:_NAMED])}"


def lost_lines(
    planned: Sequence[str], saved: Collection[str], unsaved: Sequence[str]
) -> Iterator[str]:
    """Yield what a run file holds that could not be written to its end, and what it lacks.

    Args:
        planned: The planned cases.
        saved: Those whose observation the file holds; none if the file is gone.
        unsaved: Those that were observed, but not written down.
    """
    held = [case_id for case_id in planned if case_id in saved]
    yield (
        f"the file holds {len(held)} of {count(len(planned), 'case')}"
        if held
        else ("no case is in the file")
    )
    if unsaved:
        more = f" and {len(unsaved) - _NAMED} more" if len(unsaved) > _NAMED else ""
        yield f"observed, but not in the file: {', '.join(unsaved[:_NAMED])}{more}"


def unfinished_lines(effort: Effort) -> Iterator[str]:
    """Yield the cases that a stop of the session interrupted, the longest first."""
    longest = sorted(effort.unfinished.items(), key=lambda item: item[1], reverse=True)
    if longest:
        shown = [f"{case_id} ({duration(seconds)})" for case_id, seconds in longest[:_INTERRUPTED]]
        more = f" and {len(longest) - len(shown)} more" if len(longest) > len(shown) else ""
        yield f"did not end: {', '.join(shown)}{more}"


def time_lines(effort: Effort) -> Iterator[str]:
    """Yield the share of the time that is neither compiling nor running models."""
    if not effort.spent_s:
        return
    rest: dict[str, float] = {}
    useful = other = 0.0
    for name, seconds in chain.from_iterable(spent.items() for spent in effort.spent_s):
        if name in ("compile", "warm_toolchain", "run"):
            useful += seconds
        else:
            other += seconds
            rest[name] = rest.get(name, 0.0) + seconds
    all_s = effort.wall_s * effort.workers - effort.unfinished_s
    several = f" times {effort.workers} workers" if effort.workers > 1 else ""
    text = f"time: {duration(effort.wall_s)}{several}, "
    if effort.unfinished_s >= 1.0:
        text += f"{duration(effort.unfinished_s)} of it for cases that did not end"
        if all_s < useful:  # what was observed belongs to the tests that did not end
            yield text
            return
        text += "; of the rest"
    else:
        text += "of which"
    left = "starting, waiting and judging" if several else "starting and judging"
    rest[left] = max(all_s - useful - other, 0.0)
    total_s = useful + sum(rest.values())
    shares = {name: seconds / total_s for name, seconds in rest.items()}
    parts = [f"{name} {share:.0%}" for name, share in shares.items() if share >= 0.005]
    share = 1 - useful / total_s
    yield f"{text} {share:.0%} is neither compiling nor running models ({', '.join(parts)})"
