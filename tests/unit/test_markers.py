"""The expression of ``-m``: which cases it can select, before pytest collects anything."""

import pytest

from compilegate.session.markers import could_select, selects


@pytest.mark.parametrize(
    ("expression", "cpu", "slow_cpu", "gpu", "slow_gpu"),
    [
        ("", True, True, True, True),
        ("cpu", True, True, False, False),
        ("gpu", False, False, True, True),
        ("not gpu", True, True, False, False),
        ("cpu or gpu", True, True, True, True),
        ("cpu and gpu", False, False, False, False),
        ("gpu and not slow", False, False, True, False),
        ("slow", False, True, False, True),
        ("not (slow or gpu)", True, False, False, False),
        # Markers that a test may have: a case could be selected with or without them.
        ("aspect", True, True, True, True),
        ("not aspect", True, True, True, True),
        ("cpu and aspect", True, True, False, False),
        ("cpu and not mine", True, True, False, False),
        ("mine or gpu", True, True, True, True),
    ],
)
def test_an_expression_could_select_a_case(expression, cpu, slow_cpu, gpu, slow_gpu):
    found = [
        could_select(expression, marks)
        for marks in (("cpu",), ("cpu", "slow"), ("gpu",), ("gpu", "slow"))
    ]
    assert found == [cpu, slow_cpu, gpu, slow_gpu]


def test_markers_with_arguments_belong_to_the_test():
    assert could_select('cpu and aspect(phase="train")', ("cpu",))
    assert not could_select('gpu and aspect(phase="train")', ("cpu",))


def test_a_test_may_carry_one_unknown_marker_and_lack_another():
    assert could_select("cpu and mine and not yours", ("cpu",))


@pytest.mark.parametrize(
    ("expression", "names", "selected"),
    [
        ("", set(), True),
        ("cpu", {"cpu", "aspect"}, True),
        ("cpu", {"gpu"}, False),
        ("cpu and aspect", {"cpu", "aspect"}, True),
        ("cpu and aspect", {"cpu"}, False),
        ("not slow", {"cpu", "slow"}, False),
        ("gpu and not slow", {"gpu"}, True),
        ("(gpu or cpu) and slow", {"cpu", "slow"}, True),
    ],
)
def test_an_expression_selects_names_of_markers(expression, names, selected):
    assert selects(expression)(names) is selected


@pytest.mark.parametrize("expression", ["cpu and", "(cpu", "cpu gpu"])
@pytest.mark.parametrize("function", [lambda e: could_select(e, ("cpu",)), selects])
def test_a_malformed_expression_raises_pytests_own_error(expression, function):
    with pytest.raises(SyntaxError):
        function(expression)
