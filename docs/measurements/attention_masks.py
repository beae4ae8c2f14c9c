"""Recover the masks of fused attention: ``python docs/measurements/attention_masks.py``.

On a GPU, each kernel draws its dropout mask and does not return it. This runs attention in each
kernel, dtype and shape, recovers the mask, and compares with attention in float64 that drops the
same elements.
"""

import contextlib
import itertools
from collections import Counter

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.random_draws import DrawRecording, ReplayError

KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "PyTorch's choice": None,
}
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
#: Batch, heads, queries, keys, width.
SHAPES = (
    (2, 4, 16, 16, 64),
    (4, 12, 128, 128, 64),
    (2, 4, 33, 77, 32),
    (1, 2, 300, 300, 16),
    (8, 16, 512, 512, 64),
    (2, 3, 5, 5, 8),
)
MASKS = ("none", "causal", "hidden keys", "bias")
#: With another mask, the error is about the root of the share that is dropped.
SAME = 0.02


def arguments(shape, dtype, mask):
    """Return query, key and value, and the keyword arguments of attention."""
    batch, heads, queries, keys, width = shape
    given = [
        torch.randn(batch, length, heads, width, device="cuda", dtype=dtype).transpose(1, 2)
        for length in (queries, keys, keys)
    ]
    if mask == "hidden keys":
        seen = torch.arange(keys, device="cuda") < max(keys - 4, 1)
        return given, {"attn_mask": seen.expand(batch, 1, queries, keys)}
    if mask == "bias":
        bias = torch.randn(batch, 1, queries, keys, device="cuda", dtype=dtype)
        return given, {"attn_mask": bias}
    return given, {"is_causal": mask == "causal"}


def in_float64(given, options):
    """Return the arguments in float64."""
    bias = options.get("attn_mask")
    if bias is not None and bias.is_floating_point():
        options = {"attn_mask": bias.double()}
    return [tensor.double() for tensor in given], options


def outcome(kernel, dtype, shape, mask, dropout):
    """Return what became of one mask: ``recovered``, ``wrong``, ``not recovered``, ``refused``."""
    torch.manual_seed(1)
    given, options = arguments(shape, dtype, mask)
    recording = DrawRecording(is_needed=True)
    with contextlib.nullcontext() if kernel is None else sdpa_kernel(kernel):
        try:
            torch.manual_seed(2)
            plain = scaled_dot_product_attention(*given, dropout_p=dropout, **options)
            next_draw = torch.rand(3, device="cuda")
        except RuntimeError:
            return "refused"  # this kernel has no such dtype, shape or mask
        torch.manual_seed(2)
        with recording.active():
            fused = scaled_dot_product_attention(*given, dropout_p=dropout, **options)
        undisturbed = torch.equal(plain, fused)
        undisturbed &= torch.equal(torch.rand(3, device="cuda"), next_draw)
    lifting = Lifting()
    lifting.replay = recording.replay()
    lifted, options = in_float64(given, options)
    try:
        with lifting.active():
            reference = scaled_dot_product_attention(*lifted, dropout_p=dropout, **options)
    except ReplayError:
        return "not recovered"
    error = (fused.double() - reference).norm() / reference.norm()
    return "recovered" if undisturbed and error < SAME else "wrong"


def main():
    """Print a row for each kernel and dtype."""
    found = Counter()
    for name, dtype, shape, mask in itertools.product(KERNELS, DTYPES, SHAPES, MASKS):
        if mask == "causal" and shape[2] != shape[3]:
            continue
        for dropout in (0.1, 0.5) if shape == SHAPES[1] else (0.1,):
            what = outcome(KERNELS[name], dtype, shape, mask, dropout)
            found[name, str(dtype).removeprefix("torch."), what] += 1
    for row, number in found.items():
        print(*row, number, sep=" | ")


if __name__ == "__main__":
    main()
