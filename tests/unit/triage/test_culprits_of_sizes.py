"""Code that is compiled again for another size, as its setting needs, is no culprit."""

import pytest

from tests.unit.failing import A, found, recompiled

SIZE = "0/0: tensor 'x' size mismatch at index {}. expected 6, actual {}"
BOUND = "0/1: 2 <= x.size()[0] <= 8"


@pytest.mark.parametrize(
    ("dynamic", "guards", "count"),
    [
        ("auto", (SIZE.format(0, 4), BOUND), 1),
        ("auto", (SIZE.format(0, 4), SIZE.format(1, 4), BOUND), 1),
        ("auto", (SIZE.format(0, 4), SIZE.format(0, 5), BOUND), 2),
        ("auto", (SIZE.format(0, 4), SIZE.format(0, 5)), 1),
        ("marked", (SIZE.format(0, 4), BOUND), 2),
    ],
    ids=["due", "two sizes are due", "twice", "nothing else", "not due"],
)
def test_code_for_another_size_is_no_culprit_where_its_setting_needs_it(dynamic, guards, count):
    seen = found(recompiled(A.replace("static", dynamic), *guards))
    assert len(seen) == count
    assert any(culprit.text.endswith(BOUND) for culprit in seen) is (BOUND in guards)
