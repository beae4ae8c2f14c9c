"""Tests of recovering the dropout mask of fused attention, with a kernel that runs on a CPU."""

import math

import pytest
import torch

from compilegate.observe.model import attention_dropout
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.random_draws import DrawRecording, ReplayError

KEPT = []


@pytest.fixture(scope="module")
def kernel():
    """An operator with the arguments of cuDNN's attention. It keeps its masks in ``KEPT``."""
    library = torch.library.Library("compilegate_attention", "DEF")
    library.define(
        "fused(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, float dropout_p=0.0,"
        " bool is_causal=False, *, float? scale=None) -> (Tensor, Tensor)",
        tags=torch.Tag.nondeterministic_seeded,
    )

    def fused(query, key, value, attn_bias, *switches, scale=None):
        dropout_p, is_causal = (*switches, 0.0, False)[:2]
        groups = query.shape[1] // key.shape[1]
        key, value = (one.repeat_interleave(groups, 1) for one in (key, value))
        scores = query @ key.mT * (scale or 1 / math.sqrt(query.shape[-1]))
        if attn_bias is not None:
            if any(stride % 8 for stride in attn_bias.stride()[:-1]):
                raise RuntimeError("attn_bias is not correctly aligned")
            scores = scores + attn_bias
        if is_causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf)
        mask = torch.rand(scores.shape) >= dropout_p
        KEPT.append(mask)
        return (scores.softmax(-1) * mask / (1 - dropout_p)) @ value, scores.logsumexp(-1)

    library.impl("fused", fused, "CPU")
    yield torch.ops.compilegate_attention.fused.default
    library._destroy()


def inputs(heads=4, keys=7, width=3):
    torch.manual_seed(0)
    query = torch.randn(2, 4, 5, width)
    return query, torch.randn(2, heads, keys, width), torch.randn(2, heads, keys, width)


def aligned(bias):
    """Return a bias in rows of eight elements, as PyTorch pads them for the kernel."""
    return torch.nn.functional.pad(bias, (0, 1))[..., :7]


BIASES = {
    "no bias": lambda: None,
    "a bias": lambda: aligned(torch.randn(2, 1, 5, 7)),
    "one bias for all rows": lambda: aligned(torch.randn(1, 1, 1, 7)).expand(2, 4, 5, 7),
    "hidden keys": lambda: aligned(
        torch.zeros(1, 1, 5, 7).masked_fill(torch.arange(7) > 4, -math.inf)
    ),
    "a hidden row": lambda: aligned(
        torch.zeros(2, 1, 5, 7).index_fill(2, torch.tensor(1), -math.inf)
    ),
    "the least number": lambda: aligned(
        torch.full((2, 1, 5, 7), torch.finfo(torch.float32).min).triu(2)
    ),
}


@pytest.mark.parametrize("bias", BIASES.values(), ids=BIASES)
@pytest.mark.parametrize("heads", [4, 2], ids=["heads", "fewer heads of keys"])
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
def test_the_mask_is_that_of_the_kernel(kernel, bias, heads, is_causal):
    query, key, value = inputs(heads)
    KEPT.clear()
    _, mask = attention_dropout.run(
        kernel, (query, key, value, bias(), 0.3, is_causal), {"scale": 0.7}
    )
    hidden = torch.zeros_like(mask) if bias() is None else (bias() < -1e4).expand_as(mask)
    seen = ~hidden & (torch.ones_like(mask).tril() if is_causal else True)
    assert torch.equal(mask[seen], KEPT[0][seen])
    assert 0.5 < mask[seen].float().mean() < 0.9


def test_the_generator_goes_on_from_where_the_kernel_left_it(kernel):
    given = (*inputs(), None, 0.3)
    plain = kernel(*given)[0], torch.rand(4)
    torch.manual_seed(0)
    given = (*inputs(), None, 0.3)
    (output, _), _ = attention_dropout.run(kernel, given, {})
    assert torch.equal(output, plain[0])
    assert torch.equal(torch.rand(4), plain[1])


def in_steps(query, key, value, dropout):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return torch.ops.aten.native_dropout(scores.softmax(-1), dropout, True)[0] @ value


def replayed(kernel):
    """Return attention with recorded dropout, and the same step by step in float64."""
    given = inputs()
    recording = DrawRecording(is_needed=True)
    with recording.active():
        fused = kernel(*given, None, 0.3)[0]
    lifting = Lifting()
    lifting.replay = recording.replay()
    with lifting.active():
        return fused, in_steps(*(one.double() for one in given), 0.3)


def test_the_reference_drops_what_the_kernel_dropped(kernel):
    fused, reference = replayed(kernel)
    assert torch.allclose(fused.double(), reference, atol=1e-6)


def test_a_mask_that_does_not_follow_the_generator_is_not_replayed(kernel, monkeypatch):
    monkeypatch.setattr(torch, "set_rng_state", lambda state: None)
    with pytest.raises(ReplayError, match=r"fused\.default draws inside its kernel"):
        replayed(kernel)


def raise_error(text):
    raise RuntimeError(text)


def test_a_mask_that_does_not_fit_into_memory_is_not_replayed(kernel, monkeypatch):
    text = "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"
    monkeypatch.setattr(attention_dropout._Attention, "mask", lambda self: raise_error(text))
    given = (*inputs(), None, 0.3)
    plain = kernel(*given)[0], torch.rand(4)
    given = (*inputs(), None, 0.3)
    (output, _), mask = attention_dropout.run(kernel, given, {})
    assert mask is None
    assert torch.equal(output, plain[0])
    assert torch.equal(torch.rand(4), plain[1])


def test_another_error_of_the_kernel_is_raised(kernel, monkeypatch):
    monkeypatch.setattr(attention_dropout._Attention, "mask", lambda self: raise_error("no"))
    with pytest.raises(RuntimeError, match=r"^no$"):
        attention_dropout.run(kernel, (*inputs(), None, 0.3), {})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_scaled_dot_product_cudnn_attention", True),
        ("_scaled_dot_product_efficient_attention", True),
        ("_scaled_dot_product_flash_attention", True),
        ("_flash_attention_forward", False),
        ("_efficient_attention_forward", False),
        ("_scaled_dot_product_cudnn_attention_backward", False),
        ("native_dropout", False),
    ],
)
def test_which_kernels_keep_their_mask(name, expected):
    operator = getattr(torch.ops.aten, name).default
    assert attention_dropout.is_fused_attention(operator) is expected
