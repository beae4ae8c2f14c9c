"""What a report says of the first line of the user's code whose result is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compilegate.records.part import LineDiffers

#: By the first backend that fails: whose graph is wrong, and what it is compared with.
_SIDES = {
    "eager": ("Dynamo's graph", "eager", "the graph"),
    "aot_eager": ("AOTAutograd's graph", "Dynamo's graph", "AOTAutograd's"),
}
#: The same: where a fault is that changes no result of a line.
_ELSEWHERE = {
    "eager": "in guards, Python objects, autograd, or returned values",
    "aot_eager": "in how inputs and outputs are passed (aliases, writes), or in the backward",
}
#: How many lines are named that no graph has.
_MOST = 3


def paragraph(found: LineDiffers, backend: str) -> Iterator[str]:
    """Yield the paragraph.

    Args:
        found: The line.
        backend: The first backend that fails.
    """
    return _lost(found) if found.lost else _of_results(found, backend)


def _of_results(found: LineDiffers, backend: str) -> Iterator[str]:
    is_uncompared = bool(found.lines) and found == LineDiffers(lines=found.lines)
    if backend not in _SIDES or is_uncompared:
        yield f"**Line:** one of {', '.join(f'`{line}`' for line in found.lines)}: the graph has no"
        yield from ("other lines.", "")
        return
    graph, other, short = _SIDES[backend]
    code = f"`{found.source}`: `{found.code}`"
    is_lost = bool(found.left_out and found.right and found.wrong)
    if is_lost:
        yield from _left_out(found, f"**Line:** {other}")
    if found.right and found.wrong:
        before = "After it," if is_lost else "**Line:**"
        yield f"{before} {code} is the first line whose result in {graph} differs from {other}:"
        yield f"{found.right} in {other}, and {found.wrong} in {short}."
    elif found.wrong:
        yield f"**Line:** {code} is in {graph}, and {other} does not run it in this call."
    elif found.compared or found.unseen:
        yield from _none(found, backend)
    else:
        return
    if found.modules:
        yield "{} runs it in `{}`, where the graph has `{}`.".format(
            other.capitalize(), *found.modules
        )
    if found.caller:
        yield f"Its function is called at `{found.caller}`."
    if not is_lost:
        yield from _left_out(found, f"Before it, {other}")
    named = {*found.writes, *found.unseen, *found.touched.values()}
    if lines := [line for line in found.lines if line not in named]:
        yield f"The graph has only these lines: {', '.join(f'`{line}`' for line in lines)}."
    for line in found.writes[:_MOST]:
        yield f"A line that writes to a tensor: `{line}`."
    yield from _touching(found.touched)
    for line in found.unseen[:_MOST]:
        yield f"Not compared, because {other} calls no PyTorch function for it: `{line}`."
    yield ""


def _lost(found: LineDiffers) -> Iterator[str]:
    """Yield the lines that change a state of Python which differs after the call."""
    first, *others = (f"`{line}`" for line in found.lost)
    yield f"**Line:** {' or '.join([first, *others])} changes `{found.lost_from}` in eager, but not"
    yield "in the same way in compiled code. All results that were compared are the same."
    yield ""


def _left_out(found: LineDiffers, who: str) -> Iterator[str]:
    """Yield what eager alone runs, a sentence each.

    Args:
        found: The line after these.
        who: How each sentence begins.
    """
    at = f", in a function that is called at `{found.left_out_at}`" if found.left_out_at else ""
    for line in found.left_out[:_MOST]:
        yield f"{who} runs a line whose result is in no graph: `{line}`{at}."
        who = who.removeprefix("**Line:** ")
        at, who = "", f"{who[0].upper()}{who[1:]}"


def _touching(touched: Mapping[str, str]) -> Iterator[str]:
    """Yield what lines do with the tensors that are wrong, a sentence each."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for name, line in touched.items():
        does = "makes" if name.startswith("output") else "is the first to read"
        is_gradient = name.startswith("gradient ")
        what = "whose gradient is" if is_gradient else "which is"
        own = names.setdefault((line, does, what), [])
        own.append(f"`{name.removeprefix('gradient ')}`")
    for (line, does, what), own in names.items():
        more = f" and {len(own) - _MOST} more" if len(own) > _MOST else ""
        yield f"`{line}` {does} {', '.join(own[:_MOST])}{more}, {what} wrong."


def _none(found: LineDiffers, backend: str) -> Iterator[str]:
    graph, other, _ = _SIDES[backend]
    are = f"all {found.compared} compared results are"
    if found.compared == 1:
        are = "the only compared result is"
    yield f"**Line:** none. In {graph}, {are} the same as in {other}."
    if not found.unseen:
        yield f"The fault is elsewhere: {_ELSEWHERE[backend]}."
