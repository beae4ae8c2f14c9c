"""Tests of variables of imported modules: lost changes are found, and each side has its own."""

import sys

import pytest
import torch

import tests.unit
from compilegate.observe.model.shared_state import SharedState
from tests.unit import variables_of_a_module as named
from tests.unit.compiled import differences

COUNT = "global tests.unit.variables_of_a_module.COUNT"


def by_global(x):
    named.COUNT += 1
    return x * 2


def by_package(x):
    tests.unit.variables_of_a_module.COUNT += 1
    return x * 2


def by_import(x):
    from tests.unit import variables_of_a_module

    variables_of_a_module.COUNT += 1
    return x * 2


def by_function(x):
    named.count()
    return x * 2


@pytest.mark.parametrize("counts", [by_global, by_package, by_import, by_function])
def test_a_lost_change_is_found_and_a_right_one_is_not(counts):
    assert differences(lambda: counts, theirs=lambda x: x * 2, calls=1) == [(COUNT, "1", "0")]
    assert differences(lambda: counts, calls=3) == []
    assert named.COUNT == 0


def test_a_new_variable_is_found_and_taken_away():
    def declares(x):
        named.LAST = 3
        return x * 2

    (found,) = differences(lambda: declares, theirs=lambda x: x * 2, calls=1)
    assert found[0] == "global tests.unit.variables_of_a_module.LAST"
    assert not hasattr(named, "LAST")


def test_only_variables_of_own_modules_that_code_names_are_state():
    def calls(x):
        named.SEEN.append(1)
        return torch.sin(x) * len(sys.argv) + pytest.version_tuple[0]

    names = [name for name, _ in SharedState(calls).read() if name.startswith("global ")]
    assert names == ["global tests.unit.variables_of_a_module.SEEN (structure)"]
