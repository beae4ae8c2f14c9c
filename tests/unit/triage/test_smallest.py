"""What is left of a case while it fails: smaller sizes, float32."""

from types import SimpleNamespace

import pytest

from compilegate.records.case import Case
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.smallest import Smallest, paragraph, shrink

HALF = Case.parse("m-cpu-infer-bf16-default-static")
HALF_WEIGHTS = Case.parse("m-cpu-infer-f32-default-static-bf16_weights")
DYNAMIC = Case.parse("m-cpu-infer-f32-default-dynamic")
EXACT = Case.parse("m-cpu-infer-f32-default-static")


class Trials:
    """Trials of a case that fails where ``fails`` holds, given the sizes and the precision."""

    def __init__(self, case, fails):
        self.suspect, self._fails, self.asked = SimpleNamespace(case=case), fails, []

    def of_part(self, part, backend):
        self.asked.append(part.sizes)
        return self._seen(part.sizes, self.suspect.case)

    def of_case(self, case, backend):
        self.asked.append(case.id)
        return self._seen({}, case)

    def _seen(self, sizes, case):
        return Seen("bad" if self._fails({"batch": 16, "tokens": 3} | sizes, case) else "good")


def shrunk(case, fails):
    trials, found = Trials(case, fails), Smallest()
    shrink(trials, found, {"batch": 16, "tokens": 3}, "inductor")
    return found, trials.asked


def test_a_fault_at_each_size_is_shown_at_the_smallest():
    found, asked = shrunk(EXACT, lambda sizes, case: True)
    assert found.sizes == {"batch": 1, "tokens": 1}
    assert (found.passes, found.is_exact) == ({}, None)
    both = {"batch": 2, "tokens": 2}
    assert asked == [{"batch": 2}, both, {**both, "batch": 1}, {"batch": 1, "tokens": 1}]


def test_one_is_not_tried_where_sizes_are_dynamic():
    """PyTorch compiles a size of one for itself, and refuses a mark on it."""
    found, asked = shrunk(DYNAMIC, lambda sizes, case: True)
    assert found.sizes == {"batch": 2, "tokens": 2}
    assert asked == [{"batch": 2}, {"batch": 2, "tokens": 2}]


def test_a_fault_of_large_sizes_is_shown_at_one_that_fails():
    found, _ = shrunk(EXACT, lambda sizes, case: sizes["batch"] > 4)
    assert found.sizes == {"batch": 5, "tokens": 1}
    assert found.passes == {"batch": [2, 4]}
    assert "It passes at `batch=2`, `batch=4`." in " ".join(paragraph(found))


def test_few_sizes_are_tried_between_one_that_passes_and_one_that_fails():
    found, asked = shrunk(EXACT, lambda sizes, case: sizes["batch"] > 8)
    assert found.sizes["batch"] == 9
    assert [one.get("batch", 16) for one in asked[:3]] == [2, 4, 8]
    assert [one["batch"] for one in asked[4:7]] == [12, 10, 9]


@pytest.mark.parametrize("half", [HALF, HALF_WEIGHTS])
@pytest.mark.parametrize("is_exact", [True, False])
def test_a_case_in_half_precision_is_tried_in_float32(half, is_exact):
    found, asked = shrunk(half, lambda sizes, case: is_exact or case == half)
    assert asked[0] == EXACT.id
    assert found.is_exact is is_exact
    assert found.case_of(half) == (EXACT if is_exact else half)


def test_what_fails_at_its_own_sizes_alone_is_not_smaller():
    found, _ = shrunk(
        HALF, lambda sizes, case: sizes == {"batch": 16, "tokens": 3} and case == HALF
    )
    assert not found
    assert found.passes == {"batch": [2, 4, 8, 12, 14, 15], "tokens": [2]}
