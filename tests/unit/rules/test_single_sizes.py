"""A listed call with a size of one may compile once more: Dynamo specialises on zero and one."""

import pytest

from compilegate.suites.test_recompiles import allowed_by_setting
from tests.unit.making import make_call


@pytest.mark.parametrize("dynamic", ["dynamic", "marked"])
@pytest.mark.parametrize(
    ("sizes", "allowed"),
    [
        ((8, 4, 2), 0),
        ((8, 1, 1), 1),
        ((8, 1, 6, 1), 1),
        ((1, 1), 0),
        ((1, 8, 6), 1),
        ((8, 1, 0), 2),
    ],
)
def test_a_size_of_one_compiles_once(dynamic, sizes, allowed):
    calls = [make_call(numbers={"input[0] dim 0": one, "input[0] dim 1": 1}) for one in sizes]
    assert allowed_by_setting(dynamic, calls) == allowed


@pytest.mark.parametrize(("sizes", "allowed"), [((8, 6, 4), 1), ((8, 6, 1, 1), 2)])
def test_a_size_of_one_compiles_once_after_the_dimension_is_dynamic(sizes, allowed):
    calls = [make_call(numbers={"input[0] dim 0": one}) for one in sizes]
    assert allowed_by_setting("auto", calls) == allowed
