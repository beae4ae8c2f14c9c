"""Small modules whose code, weights or options change while the cache stays.

They show what a lookup in the cache depends on. A module of the case would cost a compilation for
each change. The product alone needs no kernel on a CPU, so that each change costs 0.3 s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from torch import nn

from compilegate.observe.model.reference import Reference
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.cache_folders import in_use, note_found, note_not_found
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model

_ROWS, _WIDTH = 16, 8
#: The settings of autocast, by the precision of a case.
_AUTOCAST = {
    "f32": "without autocast",
    "bf16": "under autocast to bfloat16",
    "f16": "under autocast to float16",
}


class Product(nn.Module):
    """Adds a multiple of a product. The multiple is a constant of the code."""

    def __init__(self, factor: float = 2.0, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.factor = factor
        self.weight = nn.Parameter(torch.randn(_WIDTH, _WIDTH, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x + factor · x W."""
        return torch.addmm(x, x, self.weight, alpha=self.factor)


class EditedProduct(Product):
    """The same with another source."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x W."""
        return x @ self.weight


class Fused(nn.Module):
    """Needs one kernel on each device."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a function of each element."""
        return (x.sin() + 2).sqrt() * 3


def small(
    bench: Bench, build: Callable[[], nn.Module], dtype: torch.dtype, precision: str = ""
) -> Bench:
    """Return a bench for a small module, which enters its steps in those of another one.

    Args:
        bench: The other bench.
        build: Makes the module.
        dtype: The dtype of its input.
        precision: The precision of its calls; that of the case if it is empty.
    """

    def recipe() -> Example:
        return Example(build(), inputs=lambda: (torch.randn(_ROWS, _WIDTH, dtype=dtype),))

    case = replace(bench.builder.case, precision=precision or bench.builder.case.precision)
    model = Model("small", "caches", build=recipe)
    builder = replace(bench.builder, model=model, case=case, weights={})
    return replace(bench, builder=builder, reference=Reference(builder), draws=False)


def fill_at_once(bench: Bench, folder: Path) -> None:
    """Compile a small module, while another process compiles it in the same folder."""
    fused = small(bench, Fused, torch.float32)
    with in_use(bench, folder), bench.step("fill one cache from two processes at once") as facts:
        facts.add(fused.compare(fused.build(), fused.build_compiled()))
    with in_use(bench, folder), bench.step("use a cache that two processes filled") as facts:
        facts.add(fused.compare(fused.build(), fused.build_compiled()))
        note_found(facts, 1)


def change_one_thing(bench: Bench, folder: Path) -> None:
    """Compile a small module, then others that differ from it in one thing, with one cache."""
    cast = torch.float32
    changes: tuple[tuple[str, Callable[[], nn.Module], torch.dtype, dict[str, Any]], ...] = (
        ("a small module", Product, cast, {}),
        ("another constant in its code", lambda: Product(factor=3.0), cast, {}),
        ("another source", EditedProduct, cast, {}),
        ("another dtype", lambda: Product(dtype=torch.float64), torch.float64, {}),
        ("another option of Inductor", Product, cast, {"epilogue_fusion": False}),
    )
    for what, build, dtype, options in changes:
        changed = small(bench, build, dtype)
        patched, step = torch._inductor.config.patch(**options), bench.step(f"compile {what}")
        with in_use(bench, folder), patched, step as facts:
            facts.add(changed.compare(changed.build(), changed.build_compiled()))
            note_not_found(facts)
    _change_autocast(bench, folder)
    again = small(bench, Product, cast)
    with in_use(bench, folder), bench.step("compile the small module again") as facts:
        facts.add(again.compare(again.build(), again.build_compiled()))
        note_found(facts, 1)


def _change_autocast(bench: Bench, folder: Path) -> None:
    """Compile the small module with each other setting of autocast.

    Dynamo captures the same graph. What AOTAutograd makes of it depends on the setting.
    https://github.com/pytorch/pytorch/pull/181564
    """
    for precision, what in _AUTOCAST.items():
        if precision != bench.builder.case.precision:
            changed = small(bench, Product, torch.float32, precision)
            with in_use(bench, folder), bench.step(f"compile a small module {what}") as facts:
                facts.add(changed.compare(changed.build(), changed.build_compiled()))
                note_not_found(facts)
