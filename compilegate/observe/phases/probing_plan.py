"""The plan of the probing calls of a case: which arguments each of them has."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence

from compilegate.observe.model import probes
from compilegate.observe.model.calls import FIRST_PROBE, PlannedCall, freezes, gives_arguments
from compilegate.observe.model.probes import Probe
from compilegate.records.call import FURTHER
from compilegate.records.case import Case
from compilegate.zoo.example import Example

#: Dynamo's own limit: it compiles one code object so often.
_LIMIT = 8
#: In how many memory layouts a case is called that shares them out with others.
SHARED = 2
#: How many pairs of dimensions have equal sizes, as those of a batch of images.
_PAIRS = 3
#: How many calls show whether an error that is a little larger than eager's is chance.
_FURTHER = 24
#: How many calls precede these at most. Their inputs must be others.
_OTHERS = 100


def reusing(example: Example, sizes: dict[str, int], case: Case) -> list[PlannedCall]:
    """Plan the probing calls that use compiled code again.

    These are repetitions, extreme values, losses of another form, and other state. Code with
    frozen weights keeps state on purpose.
    """
    again = Probe(f"after {_LIMIT} more calls", repeats=_LIMIT)
    refilled = Probe("the same tensors with other numbers", repeats=1, refills=True)
    of_state = () if freezes(example, case) else probes.of_state(case)
    chosen = (again, refilled, *probes.extremes(case), *probes.of_losses(case), *of_state)
    return _planned([(sizes, probe) for probe in chosen])


def with_further_inputs(example: Example, sizes: dict[str, int], case: Case) -> list[PlannedCall]:
    """Plan calls that are as the first one, with other inputs, for a case in half precision.

    A recipe that gives its arguments has one such call, which is left out with the reason.
    """
    if not case.computes_in_half:
        return []
    count = 1 if gives_arguments(example) else _FURTHER
    further = [Probe(f"{FURTHER} {number + 1}", makes_inputs=True) for number in range(count)]
    return _planned([(sizes, probe) for probe in further], FIRST_PROBE + _OTHERS)


def at_other_batches(example: Example, sizes: dict[str, int], case: Case) -> list[PlannedCall]:
    """Plan the probing calls at a batch of one and of zero, which compile again.

    Only the dimensions that are the first one of an argument take these sizes: the batch. Nobody
    trains on an empty batch, and Inductor cannot do so with a convolution. In inference in single
    precision, a second dimension has a size of one, too: a decoder's next token. Where sizes are
    symbols, two of them are equal then, as the height and the width of an image: recipes tell sizes
    apart. A recipe that gives its arguments has calls at small batches, too, which are left out
    with the reason.
    """
    named = {names[0]: None for names in example.dims.values() if 0 in names}
    batches = [name for name in named if name in sizes]
    if not batches and gives_arguments(example):
        batches = ["batch"]
    small = [
        ({**sizes, name: size}, Probe(f"{name} of {text}", makes_inputs=True))
        for name in batches
        for size, text in ((1, "one"), (0, "zero"))
        if size or case.phase == "infer"
    ]
    if case.phase == "infer" and not case.computes_in_half:
        seconds = {names[1]: None for names in example.dims.values() if 1 in names}
        steps = [name for name in seconds if name in sizes and name not in batches]
        small += [
            ({**sizes, name: 1}, Probe(f"{name} of one", makes_inputs=True)) for name in steps
        ]
        if case.dynamic != "static":
            small += _of_equal_sizes(example, sizes)
    return _planned(small)


def _of_equal_sizes(example: Example, sizes: dict[str, int]) -> list[tuple[dict[str, int], Probe]]:
    """Return sizes at which two varying dimensions of an argument have that of the smaller one."""
    pairs = {
        pair: min(sizes[name] for name in pair)
        for names in example.dims.values()
        for pair in itertools.combinations(dict.fromkeys(names.values()), 2)
        if {*pair} <= {*sizes} and len({sizes[name] for name in pair}) == len(pair)
    }
    return [
        (
            {**sizes, **dict.fromkeys(pair, size)},
            Probe(f"equal {pair[0]} and {pair[1]}", makes_inputs=True),
        )
        for pair, size in itertools.islice(pairs.items(), _PAIRS)
    ]


def with_other_numbers(example: Example, sizes: dict[str, int], case: Case) -> list[PlannedCall]:
    """Plan the probing call in which modules have other floating attributes, which compiles again.

    A user sets such a number between calls: a scale, a temperature.
    """
    return _planned([(sizes, Probe("other numbers in modules", changes_numbers=True))])


def with_plain_inputs(example: Example, sizes: dict[str, int], case: Case) -> list[PlannedCall]:
    """Plan the probing call whose inputs require no gradients, which compiles again."""
    plain = Probe("inputs that require no gradients", without_gradients=True)
    return _planned([(sizes, plain)])


def in_other_layouts(example: Example, sizes: dict[str, int], case: Case) -> list[PlannedCall]:
    """Plan the probing calls in other memory layouts, which compile again.

    The model decides which one comes first, so that those of a family share them out. Its case that
    trains begins with another one.
    """
    layouts = probes.layouts()
    skipped = SHARED if case.phase == "train" else 0
    first = (zlib.crc32(case.model.encode()) + skipped) % len(layouts)
    return _planned([(sizes, probe) for probe in (*layouts[first:], *layouts[:first])])


def planned(name: str, example: Example, sizes: dict[str, int], case: Case) -> PlannedCall:
    """Return the probing call of a name.

    Raises:
        LookupError: There is none.
    """
    every = (
        *reusing(example, sizes, case),
        *at_other_batches(example, sizes, case),
        *with_other_numbers(example, sizes, case),
        *with_plain_inputs(example, sizes, case),
        *with_further_inputs(example, sizes, case),
        *in_other_layouts(example, sizes, case),
    )
    for call in every:
        if call.probe is not None and call.probe.name == name:
            return call
    raise LookupError(f"no probing call {name}")


def _planned(
    calls: Sequence[tuple[dict[str, int], Probe]], first: int = FIRST_PROBE
) -> list[PlannedCall]:
    """Number the calls, from the given number on. Calls of one number have the same inputs."""
    return [
        PlannedCall(index, sizes, probe=probe)
        for index, (sizes, probe) in zip(itertools.count(first), calls, strict=False)
    ]
