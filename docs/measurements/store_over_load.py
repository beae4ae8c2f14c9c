"""Sum what a kernel loads and stores over it, with and without a barrier: ``store_over_load.py``.

The kernel is Inductor's for the gradient of a bias behind a ReLU, with the batch as a symbol. For
some tiles, Triton loads the ReLU's output twice, in two layouts: for the sum, and for the store
that overwrites it. Needs a GPU, torch and triton. Each row says how often a sum was wrong.
"""

import torch
import triton
import triton.language as tl

CHANNELS = 32
#: Tiles of channels and batch, and the warps that share one.
TILES = ((32, 4, 8), (32, 16, 4), (8, 8, 2))
#: Sizes of the batch, and how many copies of the kernel run at once.
SIZES = ((8, 1), (16, 1), (32, 1), (8, 512), (16, 512), (32, 512), (64, 512))


@triton.jit(do_not_specialize=["r0_numel"])
def kernel(  # noqa: PLR0917 (as Inductor writes it)
    in_out_ptr0,
    in_ptr0,
    out_ptr1,
    xnumel,
    r0_numel,
    xblock: tl.constexpr,
    r0_block: tl.constexpr,
    barrier: tl.constexpr,
):
    """Store the gradient where the output is positive over the output, and its sum."""
    xnumel = 32
    copy = tl.program_id(1)
    in_out_ptr0 += copy * 32 * r0_numel
    in_ptr0 += copy * 32 * r0_numel
    out_ptr1 += copy * 32
    x0 = tl.program_id(0) * xblock + tl.arange(0, xblock)[:, None]
    xmask = x0 < xnumel
    r0_base = tl.arange(0, r0_block)[None, :]
    _tmp6 = tl.full([xblock, r0_block], 0, tl.float32)
    for r0_offset in tl.range(0, r0_numel, r0_block):
        r0_1 = r0_offset + r0_base
        mask = (r0_1 < r0_numel) & xmask
        at = x0 + 32 * r0_1
        tmp0 = tl.load(in_out_ptr0 + at, mask, eviction_policy="evict_first", other=0.0)
        tmp3 = tl.load(in_ptr0 + at, mask, eviction_policy="evict_first", other=0.0)
        tmp1 = tl.full([1, 1], 0.0, tl.float32)
        tmp4 = tl.where(tmp0.to(tl.float32) <= tmp1, tmp1, tmp3.to(tl.float32))
        tmp5 = tl.broadcast_to(tmp4, [xblock, r0_block])
        _tmp6 = tl.where(mask, _tmp6 + tmp5, _tmp6)
        if barrier:
            tl.debug_barrier()
        tl.store(in_out_ptr0 + at, tmp4, mask)
    tmp6 = tl.sum(_tmp6, 1)[:, None]
    tl.store(out_ptr1 + x0, tmp6, xmask)


def row(tile: tuple[int, int, int], batch: int, copies: int, *, barrier: bool) -> str:
    """Launch the kernel again and again; return how often it was wrong."""
    shape, launches = (copies, batch, CHANNELS), 1000 if copies == 1 else 100
    relu = torch.rand(shape, device="cuda").add_(0.1).to(torch.bfloat16)
    gradient = torch.randn(shape, device="cuda").to(torch.bfloat16)
    expected = gradient.double().sum(1)
    sums = torch.empty((launches, copies, CHANNELS), device="cuda")
    stored = torch.zeros((), dtype=torch.int64, device="cuda")
    for out in sums:
        buffer = relu.clone()
        grid = (triton.cdiv(CHANNELS, tile[0]), copies)
        sizes = {"xblock": tile[0], "r0_block": tile[1], "barrier": barrier}
        compiled = kernel[grid](
            buffer, gradient, out, CHANNELS, batch, **sizes, num_warps=tile[2], num_stages=1
        )
        stored += (buffer != gradient).sum()
    errors = (sums.double() - expected).abs() / expected.square().mean().sqrt()
    wrong = int((errors.amax(-1) > 1e-3).sum())
    loads = compiled.asm["ttgir"].count("tt.load")
    cells = [batch, copies, tile, barrier, loads, f"{wrong} of {launches * copies}"]
    return f"| {' | '.join(map(str, [*cells, f'{errors.max():.1f}', stored.item()]))} |"


def main() -> None:
    """Print the table."""
    torch.manual_seed(0)
    print("| batch | copies | tile, warps | barrier | loads | wrong | error | stored wrong |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for tile in TILES:
        for barrier in (False, True):
            for batch, copies in SIZES:
                print(row(tile, batch, copies, barrier=barrier), flush=True)


if __name__ == "__main__":
    main()
