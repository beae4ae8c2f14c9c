"""The ways to train a model on several ranks: eager ones, and how each of them is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from compilegate.observe.capture import compiling
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.bench import Bench

#: How many processes train together.
RANKS = 2
#: The steps of each way. DistributedDataParallel makes its buckets again after the first one.
STEPS = 2

#: Arguments of ``torch.compile``.
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Way:
    """A way to train a model on several ranks.

    Attributes:
        name: What a user does.
        wrap: Wraps a model, given its blocks and the arguments of ``torch.compile``.
        eager: The way without compiling that it is compared with; None if it is such a way.
        by_blocks: Whether it needs a model that names its blocks.
    """

    name: str
    wrap: Callable[[Subject, list[nn.Module], Options], None]
    eager: Way | None = None
    by_blocks: bool = False

    def apply(self, bench: Bench) -> Subject:
        """Return a new model that is wrapped this way, in a rank."""
        subject = bench.build()
        options = compiling.options(subject.case, bench.request.backend)
        self.wrap(subject, _blocks(bench, subject), options)
        return subject


def modules(bench: Bench) -> list[nn.Module]:
    """Return the module and its blocks: each way compiles one or the other."""
    subject = bench.build()
    return [_module(subject), *_blocks(bench, subject)]


def _blocks(bench: Bench, subject: Subject) -> list[nn.Module]:
    path = bench.builder.model.blocks
    return [*_module(subject).get_submodule(path).children()] if path else []


def _module(subject: Subject) -> nn.Module:
    assert isinstance(subject.module, nn.Module)
    return subject.module


def _data_parallel(module: Any) -> DistributedDataParallel:
    device = next(module.parameters()).device
    return DistributedDataParallel(module, device_ids=None if device.index is None else [device])


def _replicate(subject: Subject, blocks: list[nn.Module], options: Options) -> None:
    subject.run = _data_parallel(subject.module)


def _replicate_compiled(subject: Subject, blocks: list[nn.Module], options: Options) -> None:
    subject.run = _data_parallel(torch.compile(_module(subject), **options))


def _compile_replicated(subject: Subject, blocks: list[nn.Module], options: Options) -> None:
    subject.run = torch.compile(_data_parallel(subject.module), **options)


def _shard(subject: Subject, blocks: list[nn.Module], options: Options) -> None:
    # A PyTorch that was built without torch.distributed has neither.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(subject.case.device, (RANKS,))
    for module in (*blocks, _module(subject)):
        fully_shard(module, mesh=mesh)


def _compile_sharded(subject: Subject, blocks: list[nn.Module], options: Options) -> None:
    _shard(subject, blocks, options)
    _module(subject).compile(**options)


def _shard_blocks(subject: Subject, blocks: list[nn.Module], options: Options) -> None:
    for block in blocks:
        block.compile(**options)
    _shard(subject, blocks, options)


REPLICATED = Way("DistributedDataParallel(module)", _replicate)
SHARDED = Way("fully_shard(module)", _shard)

#: Each eager way stands before those that are compared with it.
WAYS = (
    REPLICATED,
    Way("DistributedDataParallel(torch.compile(module))", _replicate_compiled, REPLICATED),
    # Dynamo splits the graph where a bucket of gradients is full, so that sending them overlaps
    # with the rest of backward: https://docs.pytorch.org/docs/stable/notes/ddp.html
    Way("torch.compile(DistributedDataParallel(module))", _compile_replicated, REPLICATED),
    SHARDED,
    Way("fully_shard, then module.compile()", _compile_sharded, SHARDED),
    Way("compile() of each block, then fully_shard", _shard_blocks, SHARDED, by_blocks=True),
)


def ways_of(bench: Bench) -> list[Way]:
    """Return the ways that a model can be trained."""
    return [way for way in WAYS if bench.builder.model.blocks or not way.by_blocks]
