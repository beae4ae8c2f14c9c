"""What faults are planted in: tiny modules, and the shipped zoo's own with something around them.

Each is a builder and the sizes that vary; a name that is not here is the shipped zoo's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from compilegate.zoo import registry
from compilegate.zoo.example import Example


@dataclass(frozen=True)
class Victim:
    """A recipe: what ``@model`` takes of it."""

    build: Callable[..., Example]
    vary: dict[str, tuple[int, ...]] = field(default_factory=dict)
    requires: str | None = None


VICTIMS: dict[str, Victim] = {}
BATCH = (6, 4, 9)


def find(name: str) -> Victim:
    """A victim by name: one of these, ``around_it.of_the_zoo``, or one of the shipped zoo."""
    around, _, inner = name.rpartition(".")
    if around:
        return AROUND[around](find(inner))
    if name in VICTIMS:
        return VICTIMS[name]
    shipped = registry.load()[name]
    assert shipped.build is not None
    return Victim(lambda: shipped.example("cpu"), shipped.vary, shipped.requires)


def victim(
    *shape: int, batch: tuple[int, ...] = BATCH
) -> Callable[[Callable[[], nn.Module]], Callable[[], nn.Module]]:
    """Enter a module that takes a batch of tensors of one shape."""

    def enter(module: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        def build() -> Example:
            return Example(
                module(),
                inputs=lambda batch: (torch.randn(batch, *shape),),
                dims={0: {0: "batch"}},
            )

        VICTIMS[module.__name__] = Victim(build, {"batch": batch})
        return module

    return enter


class Calls(nn.Module):
    """A function of what a module returns, as a module."""

    def __init__(self, function: Callable[..., Any], *modules: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*modules)
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.inner(x), x)


@victim(16)
def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 7))


@victim(3, 8, 8)
def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


@victim(16)
def residual() -> nn.Module:
    return Calls(lambda y, x: x + y, nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))


@victim(16)
def clamped() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.Hardtanh(-0.5, 0.5), nn.Linear(16, 7))


@victim(16)
def dropped() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.5), nn.Linear(64, 7))


@victim(12, 16)
def boxes() -> nn.Module:
    """Coordinates in pixels, and a confidence."""
    return Calls(_boxed, nn.Linear(16, 4))


def _boxed(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([640 * y, y[..., :1].sigmoid()], -1)


@victim(16)
def dropped_apart() -> nn.Module:
    return Calls(_thinned_twice, nn.Linear(16, 32))


def _thinned_twice(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Two dropouts, side by side."""
    return torch.cat([functional.dropout(y, 0.1), functional.dropout(y.sin(), 0.1)], -1)


@victim(64)
def normed_offset() -> nn.Module:
    """Its norm sees values far from zero, as a residual stream's outlying features are."""
    return nn.Sequential(Calls(lambda y, x: x + y + 4.0, nn.Linear(64, 64)), nn.LayerNorm(64))


@victim(64)
def normed() -> nn.Module:
    """What it returns has been divided by a norm's statistics, row by row."""
    return nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))


@victim(512)
def projected() -> nn.Module:
    return nn.Linear(512, 16)


@victim(5, 16)
def attending() -> nn.Module:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(16, 48)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = (2 * self.qkv(x)).unflatten(-1, (6, 8)).transpose(1, 2).chunk(3, dim=1)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return y.transpose(1, 2).flatten(2)

    return Attention()


@victim(16)
def counting() -> nn.Module:
    class Counts(nn.Linear):
        def __init__(self) -> None:
            super().__init__(16, 16)
            self.register_buffer("calls", torch.tensor(0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return super().forward(x)

    return Counts()


@victim(256)
def deep() -> nn.Module:
    """So many layers that a call takes milliseconds, its results far more room than one of them."""
    torch.set_num_threads(1)  # threads that wait for each other would blur what is measured
    return nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.Tanh()) for _ in range(12)))


VICTIMS["deep"] = replace(VICTIMS["deep"], vary={"batch": (512,)})


def reading() -> Example:
    """Tokens, looked up and averaged."""
    return Example(
        Calls(lambda y, x: y.mean(1), nn.Embedding(50, 16), nn.Linear(16, 7)),
        inputs=lambda batch: (torch.randint(50, (batch, 5)),),
        dims={0: {0: "batch"}},
    )


VICTIMS["reading"] = Victim(reading, {"batch": BATCH})


# Around a victim: what no model of the zoo does as it is.


def _wrapped(wrap: Callable[[nn.Module], nn.Module]) -> Callable[[Victim], Victim]:
    def around(inner: Victim) -> Victim:
        def build() -> Example:
            example = inner.build()
            assert isinstance(example.module, nn.Module)
            return replace(example, module=wrap(example.module))

        return replace(inner, build=build)

    return around


def _around(function: Callable[..., Any]) -> Callable[[Victim], Victim]:
    return _wrapped(lambda module: Calls(function, module))


AROUND: dict[str, Callable[[Victim], Victim]] = {
    "choice": _around(lambda y, x: y.argmax(-1)),
    "sharp": _around(lambda y, x: (300 * y).softmax(-1)),
    "soft": _around(lambda y, x: y.softmax(-1)),
    "with_view": _around(lambda y, x: (y, x[:2])),
    "with_copy": _around(lambda y, x: (y, y.clone())),
    "in_place": _around(lambda y, x: x.mul_(0.5).mean() + y),
    "offset": _wrapped(
        lambda module: nn.Sequential(Calls(lambda y, x: y.float() + 4.0, module), nn.LayerNorm(10))
    ),
    "thinned": _wrapped(lambda module: nn.Sequential(module, nn.Dropout(0.1))),
    "boxed": _around(_boxed),
    "thinned_twice": _wrapped(lambda module: Calls(_thinned_twice, module)),
    "normed": _wrapped(lambda module: nn.Sequential(module, nn.BatchNorm1d(10))),
}
