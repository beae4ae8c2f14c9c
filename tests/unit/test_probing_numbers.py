"""Probing calls with numbers that no normal distribution draws, each with a fault and its twin."""

import pytest
import torch

from tests.unit.observed import Linear
from tests.unit.probed import WANTS, probed, replacing, verdict_of


def clamped_by_comparison(x, **ends):
    return torch.where(x > ends["min"], x, ends["min"])


def without_the_maximum(x, dim, keepdim):
    return x.exp().sum(dim, keepdim=keepdim).log()


def saturated(x, y):
    found = torch.hypot(x, y)
    return torch.where(found.isinf(), found, found.clamp(max=1e30))


def var_by_squares(x, dim, correction, keepdim):
    return x.square().mean(dim, keepdim=keepdim) - x.mean(dim, keepdim=keepdim).square()


def by_exponentials(x):
    return x.exp() / (1 + x.exp())


def log_of_the_sum(x):
    return torch.log(1 + x)


def of_the_sum_with_zero(x):
    return 1 / (x + 0.0)


VALUES = {
    "NaN in the first row": (
        lambda x: torch.clamp(x, min=0.0),
        replacing("clamp", clamped_by_comparison),
    ),
    "infinities in two rows": (torch.sigmoid, replacing("sigmoid", by_exponentials)),
    "numbers near the largest": (
        lambda x: torch.hypot(x, x),
        replacing("hypot", saturated),
    ),
    "large numbers": (
        lambda x: torch.logsumexp(x, 1, keepdim=True).expand(-1, 4),
        replacing("logsumexp", without_the_maximum),
    ),
    "numbers 1,024 times smaller": (
        lambda x: torch.log1p(x.abs()),
        replacing("log1p", log_of_the_sum),
    ),
    "a row of zeros and one of denormals": (
        torch.reciprocal,
        replacing("reciprocal", of_the_sum_with_zero),
    ),
}


@pytest.mark.parametrize("probe", VALUES)
def test_a_lowering_that_is_wrong_for_extreme_values_shows(probe):
    function, faulty = VALUES[probe]

    def of(backend):
        def module():
            return Linear(lambda x, y: (y, function(x)))

        return verdict_of(probed(module, backend=backend, wants=WANTS[:3]))

    sound = of("eager")
    assert sound.outcome == "passed", sound.details
    found = of(faulty)
    assert found.outcome == "failed"
    assert found.summary.startswith(f"probing call (batch=8), {probe}: output[1]"), found.summary


def test_an_overflow_of_one_side_alone_says_nothing():
    """Eager's norm is zero there, and that of compiled code is not a number."""
    scales = torch.tensor([1.0, 1.0, 1.0, 0.1])

    def norm(x):
        variance = x.var(1, correction=0, keepdim=True) + 1e-5
        return (x - x.mean(1, keepdim=True)) * variance.rsqrt() * scales

    def module():
        return Linear(lambda x, y: norm(x))

    otherwise = replacing("var", var_by_squares)
    seen = probed(module, backend=otherwise, wants=WANTS[:3])
    assert verdict_of(seen).outcome == "passed"
    assert "numbers near the largest: compiled code or eager alone overflows" in seen.unprobed


def std_by_squares(x, dim, keepdim):
    return x.var(dim, keepdim=keepdim).sqrt()


def doubled_where_large(x, dim, keepdim):
    found = x.std(dim, keepdim=keepdim)
    return torch.where(found > 1e12, 2 * found, found)


@pytest.mark.parametrize(
    ("std", "outcome"), [(std_by_squares, "passed"), (doubled_where_large, "failed")]
)
def test_a_standard_deviation_may_overflow_in_single_precision_alone(std, outcome):
    """Eager divides by a finite number there, and compiled code by infinity: both are finite."""

    def module():
        return Linear(lambda x, y: (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5))

    seen = probed(module, backend=replacing("std", std), wants=WANTS[:3])
    found = verdict_of(seen)
    assert found.outcome == outcome, found.details
    near = "numbers near the largest: eager computes a standard deviation in float64"
    assert near in seen.unprobed


@pytest.mark.parametrize(
    ("logsumexp", "outcome"), [(torch.logsumexp, "passed"), (without_the_maximum, "failed")]
)
def test_what_lies_next_to_an_overflowing_deviation_is_judged(logsumexp, outcome):
    """The deviation of large numbers overflows where the model multiplies them."""

    def both(x, y):
        scaled = x * 2.0**20
        return scaled / scaled.std(1, keepdim=True), torch.logsumexp(x, 1, keepdim=True)

    def compiler(graph, inputs):
        squaring = replacing("std", std_by_squares)(graph, inputs)
        return replacing("logsumexp", logsumexp)(squaring, inputs)

    found = verdict_of(probed(lambda: Linear(both), backend=compiler, wants=WANTS[:3]))
    assert found.outcome == outcome, found.details
    assert "large numbers: output[1]" in found.summary or outcome == "passed"


def saturating(x, one):
    return (x.long() + one).clamp(max=2**31 - 1).int()


def saturating_at_the_end(x, one):
    """Compiled code for the last elements, which fill no vector."""
    is_last = torch.arange(x.numel()).view_as(x) == x.numel() - 1
    return torch.where(is_last, saturating(x, one), x + one)


def with_integers(module):
    def inputs(batch):
        return torch.randn(batch, 4), torch.randint(9, (batch, 4), dtype=torch.int32)

    return {"module": module, "inputs": inputs, "signal": True, "wants": WANTS[:3]}


INTEGERS = "integers at both ends of their range"


@pytest.mark.parametrize(
    "backend",
    ["eager", replacing("add", saturating), replacing("add", saturating_at_the_end)],
    ids=["eager", "everywhere", "at_the_end"],
)
def test_a_sum_of_integers_that_does_not_overflow_as_in_eager_shows(backend):
    seen = probed(**with_integers(lambda: lambda x, n: (x * 2, n + 1)), backend=backend)
    assert INTEGERS in [one.probe for one in seen.probes]
    found = verdict_of(seen)
    assert found.outcome == ("passed" if backend == "eager" else "failed"), found.details
    assert INTEGERS in found.summary or backend == "eager"


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x, n: x[n.long() % 2], "aten.index.Tensor"),
        (lambda x, n: x.new_zeros(int(n.max())) + 1, "aten._local_scalar_dense.default"),
        (lambda x, n: x + (1 << n), "aten.bitwise_left_shift"),
    ],
)
def test_integers_that_are_indices_or_sizes_get_no_large_values(function, operator):
    seen = probed(**with_integers(lambda: function))
    assert seen.status == "completed", seen.failure
    (line,) = (line for line in seen.unprobed if line.startswith(INTEGERS))
    assert line.startswith(f"{INTEGERS}: {operator}")
    assert line.endswith("takes integers as indices, sizes or shifts")


@pytest.mark.parametrize("backend", ["eager", replacing("neg", lambda x: 0.0 - x)])
def test_a_zero_of_the_other_sign_shows(backend):
    seen = probed(
        lambda: lambda x: (x * 2, torch.neg(x)), backend=backend, wants=WANTS[:3], signal=True
    )
    found = verdict_of(seen)
    assert found.outcome == ("passed" if backend == "eager" else "inconclusive"), found.details
    assert "output[1], sign of zero: eager " in found.summary or backend == "eager"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: (x * 2, (n + n) // 2),
        lambda x, n: (x * 2, n & 3 | n.cumprod(0)),
        lambda x, n: (x * 2, (n @ n.mT).triu().masked_fill_(n[:, :1] > 4, 2)),
    ],
    ids=["floor", "bits", "matrix"],
)
def test_integers_that_are_divided_masked_or_multiplied_get_large_values(function):
    seen = probed(**with_integers(lambda: function))
    assert INTEGERS in [one.probe for one in seen.probes], seen.unprobed


def hidden(rest):
    """Return attention under a mask that hides some of each row, or all of it.

    Args:
        rest: What a row returns from which everything is hidden.
    """

    def attend(x, mask):
        found = (x @ x.T).masked_fill(~mask, -torch.inf).softmax(1).nan_to_num(0.0) @ x
        return torch.where(mask.any(1, keepdim=True), found, rest)

    return attend


@pytest.mark.parametrize("phase", ["infer", "train"])
@pytest.mark.parametrize(("rest", "outcome"), [(0.5, "failed"), (0.0, "passed")])
def test_a_row_that_a_mask_hides_entirely_shows(phase, rest, outcome):
    class Masked(torch.nn.Module):
        def forward(self, x, mask):
            return hidden(rest if torch.compiler.is_compiling() else 0.0)(x, mask)

    def inputs(batch):
        return torch.randn(batch, 4), torch.arange(batch) < 3 * torch.ones(batch, 1)

    found = verdict_of(probed(Masked, phase, inputs=inputs, wants=WANTS[:3]))
    assert found.outcome == outcome, found.details
    if outcome == "failed":
        assert "a row of False and one of True: output" in found.summary
