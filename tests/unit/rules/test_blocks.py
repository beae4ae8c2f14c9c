"""Sizes of blocks tell how often each may be compiled again, and when it must be."""

import pytest

from compilegate.judging import compiled_sizes
from compilegate.judging.budget import Budget
from compilegate.suites import test_recompiles
from tests.unit.making import make_call, make_capture, make_compilation, make_observation

STATIC, AUTO = (f"tiny-cpu-infer-f32-default-{dynamic}-regional" for dynamic in ("static", "auto"))


def of_blocks(*shapes, **others):
    """A call whose blocks get tensors of these shapes first."""
    numbers = ({f"[0][0] dim {d}": n for d, n in enumerate(shape)} for shape in shapes)
    return make_call(blocks=tuple(one | others for one in numbers))


def eagerly(dynamic, calls, compiled):
    return [line[:6] for line in compiled_sizes.of_blocks(calls, compiled, dynamic)]


FIRST, SECOND, THIRD = (of_blocks((size, 16)) for size in (8, 4, 2))


@pytest.mark.parametrize(
    ("dynamic", "calls", "compiled", "expected"),
    [
        ("static", [FIRST, FIRST, SECOND], {0}, ["call 3"]),
        ("static", [FIRST, SECOND, THIRD], {0, 1}, ["call 3"]),
        ("static", [FIRST, SECOND, THIRD, SECOND], {0, 1, 2}, []),
        ("auto", [FIRST, FIRST, SECOND], {0}, ["call 3"]),
        ("auto", [FIRST, SECOND, THIRD], {0, 1}, []),
        ("auto", [FIRST, SECOND, of_blocks((8, 32))], {0, 1}, ["call 3"]),
        ("static", [FIRST, of_blocks((8, 16), **{"[0][1] dim 0": 5})], {0}, []),
        ("auto", [of_blocks((8, 16), (8, 32)), of_blocks((8, 64))], {0}, []),
        ("auto", [of_blocks((8, 16), (8, 32)), of_blocks((4, 16), (4, 32))], {0}, ["call 2"]),
        ("static", [make_call(), make_call()], {0}, []),
    ],
    ids=[
        "a second size",
        "a third size, which is fixed",
        "each compiled",
        "a second size may vary from then on",
        "a third size of a dimension that varies",
        "another dimension",
        "another argument alone, such as a mask",
        "kinds of blocks have two sizes at once",
        "all kinds have another batch",
        "runs of earlier versions do not tell",
    ],
)
def test_blocks_at_new_sizes_must_be_compiled(dynamic, calls, compiled, expected):
    assert eagerly(dynamic, calls, compiled) == expected


@pytest.mark.parametrize(
    ("case", "compiled", "fallbacks", "outcome"),
    [
        (STATIC, (0, 1), (), "passed"),
        (STATIC, (0,), (), "failed"),
        (AUTO, (0,), (), "failed"),
        (STATIC, (0,), ("a kind of block runs eagerly in each call",), "passed"),
    ],
)
def test_a_block_that_runs_eagerly_fails_recompiles(case, compiled, fallbacks, outcome):
    made = tuple(make_compilation(call, "size" if call else "") for call in compiled)
    observation = make_observation(
        case=case,
        calls=(FIRST, SECOND),
        capture=make_capture(compilations=made, fallbacks=fallbacks),
    )
    finding = test_recompiles.rule(observation, Budget())
    assert finding.outcome == outcome
    assert ("blocks ran eagerly" in finding.summary) is (outcome == "failed")


@pytest.mark.parametrize(("again", "outcome"), [(1, "passed"), (2, "failed")])
def test_a_size_that_no_block_sees_justifies_no_recompilation(again, outcome):
    sizes = ({"[0][0] dim 0": 8, "[0][1] dim 0": length} for length in (4, 6, 9))
    shapes = ((8, 16), (4, 16), (4, 16))
    numbers = ({"[0][0] dim 0": 8, "[0][0] dim 1": 16} | {"[0][0] dim 0": b} for b, _ in shapes)
    calls = tuple(
        make_call(numbers=of_call, blocks=(of_block,))
        for of_call, of_block in zip(sizes, numbers, strict=True)
    )
    made = tuple(make_compilation(call, "size" if call else "") for call in range(again + 1))
    capture = make_capture(compilations=made)
    observation = make_observation(case=AUTO, calls=calls, capture=capture)
    assert test_recompiles.rule(observation, Budget()).outcome == outcome
