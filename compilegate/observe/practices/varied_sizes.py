"""The sizes that a model declares, and the calls that a practice makes at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compilegate.observe.model.calls import has_fixed_inputs
from compilegate.observe.practices.bench import Bench

#: The size of each named dimension in a call.
Sizes = Mapping[str, int]


def text_of(sizes: Sizes) -> str:
    """Return sizes as a step names them: ``batch=4, length=24``."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


@dataclass(frozen=True)
class VariedSizes:
    """The sizes of a model's dimensions.

    Attributes:
        vary: The sizes of each dimension that varies, by name. The first is compiled first.
        declared: The dimensions of inputs that take several sizes.
    """

    vary: Mapping[str, tuple[int, ...]]
    declared: tuple[str, ...]

    @property
    def first(self) -> Sizes:
        """The sizes that are compiled first."""
        return {name: sizes[0] for name, sizes in self.vary.items()}

    @property
    def leading(self) -> str:
        """The dimension that varies where one is enough: in most models, the batch."""
        return self.declared[0]

    def with_size(self, name: str, size: int) -> Sizes:
        """Return the first sizes, except that of one dimension."""
        return {**self.first, name: size}

    def others(self, *names: str) -> list[Sizes]:
        """Return sizes that differ from the first ones in one of some dimensions."""
        return [self.with_size(name, size) for name in names for size in self.vary[name][1:]]

    def change(self, sizes: Sizes) -> str:
        """Return the sizes that are not the first ones, as text."""
        return text_of({name: size for name, size in sizes.items() if size != self.first[name]})


def of_case(bench: Bench) -> VariedSizes | None:
    """Return the sizes of a case's model; None if no dimension of its inputs varies."""
    example = bench.build().example
    if example.calls or has_fixed_inputs(example):
        return None
    vary = bench.builder.model.sizes(bench.builder.case.device)
    named = {name for names in example.dims.values() for name in names.values()}
    declared = tuple(name for name, sizes in vary.items() if name in named and len(sizes) > 1)
    return VariedSizes(vary, declared) if declared else None
