"""Models for a GPU: healthy ones, and ones with faults that only a GPU shows."""

import torch
from torch import nn
from torch._inductor import compile_fx
from torch.nn import functional

from compilegate import Example, model


class Block(nn.Module):
    """Two layers with a given function between them."""

    def __init__(self, between=lambda x: x):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.between = between

    def forward(self, x):
        return self.second(self.between(functional.gelu(self.first(x))))


def rows(batch=16):
    return (torch.randn(batch, 64),)


@model("healthy_first")
def healthy_first():
    return Example(Block(), inputs=rows)


@model("drops")
def drops():
    """The dropout masks depend on the dtype of the computation."""
    return Example(Block(lambda x: functional.dropout(x, 0.5)), inputs=rows)


@model("drops_attention")
def drops_attention():
    """Its fused attention draws a mask inside the kernel, of more keys than the value is wide."""

    def attend(x):
        h = x.view(1, 4, 32, 8)
        return functional.scaled_dot_product_attention(h, h, h, dropout_p=0.5).reshape(16, 64)

    return Example(Block(attend), inputs=rows)


@model("drops_biased_attention")
def drops_biased_attention():
    """31 keys have a bias. PyTorch pads its rows, since the kernel takes aligned ones alone."""

    def attend(x):
        h = x.view(1, 4, 32, 8)
        keys = h[:, :, :31]
        bias = h @ keys.mT
        return functional.scaled_dot_product_attention(h, keys, keys, bias, 0.5).reshape(16, 64)

    return Example(Block(attend), inputs=rows)


@model("draws_rows")
def draws_rows():
    """Drops whole rows. Inductor compares a uniform draw with the probabilities."""

    def drop(x):
        return x * torch.bernoulli(torch.full((16, 1), 0.8, device=x.device)) / 0.8

    return Example(Block(drop), inputs=rows)


@model("draws_by_weights", settings=("infer-*",))
def draws_by_weights():
    """Eager's kernel asserts that weights are numbers. Nothing runs on the GPU after that."""
    return Example(Block(lambda x: x + 0.0 * torch.multinomial(x.softmax(-1), 1)), inputs=rows)


@model("asserts_finite", settings=("infer-*",))
def asserts_finite():
    """The model itself asserts something about its numbers."""

    def checked(x):
        torch._assert_async(x.isfinite().all())
        return x

    return Example(Block(checked), inputs=rows)


@model("has_labels", settings=("infer-*", "train-*"))
def has_labels():
    """Eager's kernel asserts that labels are probabilities, also where noise moves them."""

    class Loss(Block):
        def forward(self, labels):
            chances = super().forward(labels).sigmoid().mean(1)
            return functional.binary_cross_entropy(chances, labels[:, 0].detach())

    return Example(Loss(), inputs=lambda: (torch.rand(16, 64).round(),))


@model("asks_the_processor")
def asks_the_processor():
    """Computes one step on the processor, which no CUDA graph can record."""
    return Example(Block(lambda x: x.cpu().sin().to(x.device)), inputs=rows)


@model("takes_all_memory")
def takes_all_memory():
    def take(x):
        return x + torch.empty(2**43, dtype=torch.uint8, device=x.device)[: x.shape[1]]

    return Example(Block(take), inputs=rows)


@model("reads_beyond")
def reads_beyond():
    """Triggers an assertion on the GPU, after which nothing works in that process."""

    def read(x):
        return x[:, torch.full((64,), 10**6, device=x.device)]

    return Example(Block(read), inputs=rows)


@model("overflows")
def overflows():
    """Its scaled gradients overflow float16 until the scale has fallen."""
    return Example(Block(lambda x: x * 3e4), inputs=rows, signal=False)


@model("writes_its_input")
def writes_its_input():
    """Changes its input in place, so Inductor records no CUDA graph."""
    return Example(lambda x: x.mul_(2).sum(1), inputs=rows)


@model("records_no_backward")
def records_no_backward():
    """Makes Inductor in this process silently skip CUDA graphs for backwards."""
    record = compile_fx.cudagraphify

    def cudagraphify(run, *args, is_backward=False, **kwargs):
        return run if is_backward else record(run, *args, is_backward=False, **kwargs)

    compile_fx.cudagraphify = cudagraphify
    return Example(Block(), inputs=rows)


@model("healthy_last", vary={"batch": (16, 8, 12)})
def healthy_last():
    return Example(Block(), inputs=rows)
