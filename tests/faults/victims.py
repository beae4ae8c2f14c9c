"""The victims of faults: tiny modules, and models of the shipped zoo, some of them wrapped.

Each victim has a builder and the sizes that vary. A name without an entry here belongs to the
shipped zoo.
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
    """A recipe: the builder, and the arguments of ``@model``."""

    build: Callable[..., Example]
    vary: dict[str, tuple[int, ...]] = field(default_factory=dict)
    requires: str | None = None


VICTIMS: dict[str, Victim] = {}
BATCH = (6, 4, 9)


def find(name: str) -> Victim:
    """Return a victim by name: ``tiny``, ``model_of_the_zoo`` or ``wrapper.name``."""
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
    """Register a module that takes a batch of tensors with this shape."""

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
    """A module that passes the output and the input of other modules to a function."""

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


@victim(3, 12, 12)
def pictured() -> nn.Module:
    """Returns images of many channels."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.GELU(),
        nn.Conv2d(16, 64, 3, padding=1),
    )


@victim(24, 32)
def sequenced() -> nn.Module:
    """Returns sequences of many time steps."""
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 32))


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
    """Returns coordinates in pixels, and a confidence."""
    return Calls(_boxed, nn.Linear(16, 4))


def _boxed(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([640 * y, y[..., :1].sigmoid()], -1)


@victim(16)
def dropped_apart() -> nn.Module:
    return Calls(_thinned_twice, nn.Linear(16, 32))


def _thinned_twice(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the results of two dropouts, concatenated."""
    return torch.cat([functional.dropout(y, 0.1), functional.dropout(y.sin(), 0.1)], -1)


@victim(16)
def noisy() -> nn.Module:
    return Calls(_noisy, nn.Linear(16, 8))


def _noisy(y: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a result with normal noise, and drawn numbers."""
    return y + torch.randn_like(y), torch.randint(100, y.shape, device=y.device)


@victim(64)
def normed_offset() -> nn.Module:
    """Normalizes values far from zero, like the outlier features of a residual stream."""
    return nn.Sequential(Calls(lambda y, x: x + y + 4.0, nn.Linear(64, 64)), nn.LayerNorm(64))


@victim(64)
def normed() -> nn.Module:
    """Ends in a norm, so each output row is divided by the norm's statistics."""
    return nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))


@victim(512)
def projected() -> nn.Module:
    return nn.Linear(512, 16)


@victim(256, batch=(64, 40, 72))
def wide() -> nn.Module:
    return nn.Linear(256, 512)


@victim(64, batch=(64, 40, 72))
def narrow() -> nn.Module:
    """Returns rows of fewer numbers than show a wrong row alone."""
    return nn.Linear(64, 6)


@victim(64, batch=(64, 40, 72))
def uncast() -> nn.Module:
    return Calls(_in_float32, nn.Linear(64, 256))


def _in_float32(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Compute tanh outside of autocast, as models do that need its precision."""
    with torch.autocast(y.device.type, enabled=False):
        return y.float().tanh()


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
    """Takes milliseconds a call, and all its results need far more memory than one of them."""
    torch.set_num_threads(1)  # threads that wait for each other would add noise to the timings
    return nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.Tanh()) for _ in range(12)))


VICTIMS["deep"] = replace(VICTIMS["deep"], vary={"batch": (512,)})


def reading() -> Example:
    """Looks up tokens and averages their embeddings."""
    return Example(
        Calls(lambda y, x: y.mean(1), nn.Embedding(50, 16), nn.Linear(16, 7)),
        inputs=lambda batch: (torch.randint(50, (batch, 5)),),
        dims={0: {0: "batch"}},
    )


VICTIMS["reading"] = Victim(reading, {"batch": BATCH})


# Wrappers that add to a victim what no model of the zoo does.


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
    "uncast": _around(_in_float32),
    "thinned": _wrapped(lambda module: nn.Sequential(module, nn.Dropout(0.1))),
    "noisy": _around(_noisy),
    "boxed": _around(_boxed),
    "thinned_twice": _wrapped(lambda module: Calls(_thinned_twice, module)),
    "normed": _wrapped(lambda module: nn.Sequential(module, nn.BatchNorm1d(10))),
}
