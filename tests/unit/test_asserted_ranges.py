"""What a GPU's kernels assert is refused before a GPU gets it; what is in range is not."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from compilegate.observe.model.asserted_ranges import InRange, OutOfRangeError
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.probes import Probe
from compilegate.observe.model.random_draws import DrawRecording
from compilegate.observe.phases.number_checks import check_range
from compilegate.observe.phases.repeating import LeftOutError

TABLE = torch.arange(12.0).view(4, 3)
USES = {
    "index_add": lambda i: TABLE.index_add(0, i, TABLE[: len(i)]),
    "index_add_": lambda i: TABLE.clone().index_add_(0, i, TABLE[: len(i)], alpha=2),
    "index_put_": lambda i: TABLE.clone().index_put_((i,), torch.tensor(1.0)),
    "index": lambda i: TABLE[i],
    "index_select": lambda i: TABLE.index_select(0, i),
    "gather": lambda i: TABLE.gather(0, i[:, None]),
    "scatter": lambda i: TABLE.scatter(0, i[:, None], 1.0),
    "scatter_add_": lambda i: TABLE.clone().scatter_add_(0, i[:, None], TABLE),
    "scatter_reduce": lambda i: TABLE.scatter_reduce(0, i[:, None], TABLE, "mean"),
    "embedding": lambda i: torch.nn.functional.embedding(i, TABLE),
    "one_hot": lambda i: torch.nn.functional.one_hot(i, 4),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_only_an_index_that_does_not_exist_is_refused(use):
    exists = torch.tensor([0, 3, 3])
    known = use(exists)
    with InRange():
        assert torch.equal(use(exists), known)
        with pytest.raises((OutOfRangeError, RuntimeError), match=r"out of range|smaller than"):
            use(torch.tensor([0, 4, 3]))


@pytest.mark.parametrize("use", ["index", "index_put_"])
def test_an_index_may_count_from_the_end(use):
    with InRange():
        USES[use](torch.tensor([0, -4]))
        with pytest.raises(OutOfRangeError):
            USES[use](torch.tensor([0, -5]))


CHANCES = {
    "binary_cross_entropy": lambda x: torch.nn.functional.binary_cross_entropy(x, x),
    "bernoulli": torch.bernoulli,
    "bernoulli_": lambda x: torch.empty(3).bernoulli_(x),
    "multinomial": lambda x: x.multinomial(1),
}


@pytest.mark.parametrize("use", CHANCES.values(), ids=CHANCES)
@pytest.mark.parametrize("number", [-0.1, torch.nan])
def test_only_a_probability_out_of_range_is_refused(use, number):
    with InRange():
        use(torch.tensor([0.0, 0.5, 1.0]))
        torch.empty(3).fill_(2.0).bernoulli_()  # its numbers are no probabilities
        with pytest.raises(OutOfRangeError, match=r"gets a probability out of range"):
            use(torch.tensor([0.5, number, 1.0]))


PROBE = Probe("NaN", change=torch.clone, is_extreme=True)


def model_on(device, function, x, *, asserts=True):
    return SimpleNamespace(
        case=SimpleNamespace(device=device),
        module=function,
        recorder=SimpleNamespace(shared=None),
        asserts_ranges=asserts,
        prepare=lambda planned: x,
        forward=function,
    )


def binned(x):
    """Count numbers in bins. A NaN becomes the smallest integer."""
    return torch.zeros(8).index_add(0, (x * 4).long(), torch.ones_like(x))


@pytest.mark.parametrize(
    ("device", "number", "is_refused"),
    [("cuda", torch.nan, True), ("cuda", 0.5, False), ("cpu", torch.nan, False)],
)
def test_a_call_in_which_eager_would_lose_the_gpu_is_left_out(device, number, is_refused):
    eager = model_on(device, binned, torch.tensor([0.1, number]))

    def check():
        check_range(eager, PlannedCall(0, {}, probe=PROBE), PROBE)

    if is_refused:
        with pytest.raises(LeftOutError, match=r"index_add.default gets an index out of range"):
            check()
    else:
        check()


def test_a_model_without_such_an_operator_is_not_called():
    """A generator that it captures cannot be put back."""
    count = itertools.count()
    eager = model_on("cuda", lambda x: x * next(count), torch.ones(2), asserts=False)
    check_range(eager, PlannedCall(0, {}, probe=PROBE), PROBE)
    assert next(count) == 0


def test_a_check_leaves_no_trace_in_the_model():
    norm = torch.nn.BatchNorm1d(2)
    eager = model_on("cuda", norm, torch.ones(3, 2))
    check_range(eager, PlannedCall(0, {}, probe=PROBE), PROBE)
    assert norm.num_batches_tracked == 0
    assert torch.equal(norm.running_mean, torch.zeros(2))


@pytest.mark.parametrize(
    ("function", "asserts"),
    [(binned, True), (torch.sin, False), (torch.bernoulli, True), (torch.rand_like, False)],
)
def test_a_recording_of_draws_sees_what_asserts_ranges(function, asserts):
    recording = DrawRecording(is_needed=True)
    with recording.active():
        function(torch.full((4,), 0.5))
    assert recording.asserts_ranges is asserts
