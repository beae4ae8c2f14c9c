"""The calls at new sizes for which nothing was compiled: that code ran eagerly, without a word."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from compilegate.records.call import CallFacts, name_of_call


def of_model(calls: Sequence[CallFacts], compiled: Container[int], dynamic: str) -> list[str]:
    """Return the calls of a model at such sizes, a line each.

    Under *auto*, code for the first size is no code for the second, and that for the second may be
    for all others.
    """
    found: list[str] = []
    known: set[tuple[tuple[str, float], ...]] = set()
    for index, call in enumerate(calls):
        sizes = tuple(item for item in call.numbers.items() if " dim " in item[0])
        is_due = sizes not in known and (dynamic == "static" or len(known) < 2)
        if is_due and index not in compiled and not call.raised:
            name = name_of_call(index, call.sizes)
            found.append(f"{name}: ran eagerly: nothing was compiled for these sizes")
        known.add(sizes)
    return found


def of_blocks(calls: Sequence[CallFacts], compiled: Container[int], dynamic: str) -> list[str]:
    """Return the calls in which blocks got such sizes, a line each.

    The sizes are those of a block's first tensor. It may ignore others, such as a mask.
    """
    found: list[str] = []
    known: set[tuple[float, ...]] = set()
    for index, call in enumerate(calls):
        shapes = {_first_shape(numbers) for numbers in call.blocks}
        is_due = any(_has_no_code(shape, known, dynamic) for shape in shapes - known)
        if is_due and index not in compiled and not call.raised:
            name = name_of_call(index, call.sizes)
            found.append(f"{name}: blocks ran eagerly: nothing was compiled for their sizes")
        known |= shapes
    return found


def _first_shape(numbers: Mapping[str, float]) -> tuple[float, ...]:
    """Return the sizes of the first tensor among the arguments of a block."""
    dims = {name: value for name, value in numbers.items() if " dim " in name}
    tensor = next(iter(dims), "").partition(" dim ")[0]
    return tuple(value for name, value in dims.items() if name.startswith(f"{tensor} dim "))


def _has_no_code(
    shape: tuple[float, ...], known: Iterable[tuple[float, ...]], dynamic: str
) -> bool:
    """Whether code for known shapes is no code for this one.

    Under *auto*, a dimension is fixed until it has had two sizes.
    """
    alike = [other for other in known if len(other) == len(shape)]
    if dynamic == "static" or not alike:
        return bool(alike)
    seen = [{*sizes} for sizes in zip(*alike, strict=True)]
    return any(
        len(sizes) == 1 and size not in sizes for size, sizes in zip(shape, seen, strict=True)
    )
