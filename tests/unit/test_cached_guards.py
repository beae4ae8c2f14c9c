"""A guard that Inductor sets keeps its line when the code comes from a cache."""

import pytest
import torch
from torch._inductor.utils import fresh_cache

from compilegate.observe.capture import cached_guards, compile_log
from tests.unit.captured import run

pytestmark = pytest.mark.usefixtures("clean_compiler")

READ = "(_functorch/_aot_autograd/autograd_cache.py:14 in evaluate_guards)"


def outer(x, y):
    """Return a product that Inductor writes as products of numbers if there are at most 32."""
    return x @ y


def branching(x, y):
    return x * y if x.shape[0] > 20 else x + y


def recompiled(function):
    """Return what compiled again for another size."""
    compile_log.reset()
    calls = [(torch.ones(n, 1), torch.ones(1, 16)) for n in (25, 9)]
    seen = run(function, *calls, backend="inductor", dynamic=True)
    return seen.compilations[1], seen.caches


@pytest.mark.parametrize(
    ("function", "line"), [(outer, "_inductor/decomposition.py"), (branching, __file__[-20:])]
)
def test_a_guard_of_cached_code_names_the_line_that_set_it(function, line):
    with fresh_cache():
        cold, _ = recompiled(function)
        warm, caches = recompiled(function)
    assert sum(count for name, count in caches.items() if name.endswith("cache_hit")) > 0
    assert line in cold.reason
    assert line in warm.reason
    assert "autograd_cache" not in warm.reason
    assert "capture/cached_guards.py" not in warm.reason
    assert warm.guard == cold.guard


def test_a_guard_of_code_that_another_process_cached_names_the_cache():
    reason = f"0/0: 17 <= x.size()[0] # {READ}"
    assert cached_guards.with_lines(reason) == reason


def test_lines_replace_those_that_read_the_cache(monkeypatch):
    monkeypatch.setitem(cached_guards._lines, "0/0", {"_inductor/a.py:5 in mm"})
    guard = "17 <= x.size()[0]"
    read = f"0/0: {guard} # {READ} and (compilegate/capture/cached_guards.py:9 in evaluated)"
    assert cached_guards.with_lines(read) == f"0/0: {guard} # (_inductor/a.py:5 in mm)"
    for other in (f"0/1: {guard} # {READ}", f"0/0: {guard} # (rk/zoo.py:5 in forward)"):
        assert cached_guards.with_lines(other) == other
