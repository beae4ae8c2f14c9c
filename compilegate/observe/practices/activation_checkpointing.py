"""Activation checkpointing: backward computes the activations of compiled blocks again.

https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from compilegate.observe.device import device as device_of
from compilegate.observe.device.protocol import Step
from compilegate.observe.measure.memory import held_bytes, peak_memory
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.bench import Bench
from compilegate.records.practice import Practice
from compilegate.records.wording import counted


def observe(bench: Bench) -> Practice:
    """Compile a model whose blocks are checkpointed, and compare it with eager without that.

    In eager, a checkpointed block would also compute its batch norms' statistics twice.
    """
    if not isinstance(bench.build().module, nn.Module):
        return Practice(unavailable="a function has no blocks to checkpoint")
    compiled = bench.build_compiled()
    blocks = _checkpoint_blocks(compiled, bench.builder.model.blocks)
    with bench.step(f"checkpoint of {counted(blocks, 'block')}, use_reentrant=False") as facts:
        facts.add(bench.compare(bench.build(), compiled))
    if not bench.steps[-1].raised:
        with bench.step("a second call of checkpointed blocks", needed=0):
            bench.call(compiled)
        _measure(bench, compiled)
    return bench.practice()


def _checkpoint_blocks(subject: Subject, path: str | None) -> int:
    """Checkpoint the blocks of a model, before it is called. Return how many there are.

    A model of single layers is one block: checkpoints around each layer would keep its inputs.
    """
    assert isinstance(subject.module, nn.Module)
    module = subject.module
    found = module.get_submodule(path).children() if path else _blocks(module)
    blocks = [*found] or [module]
    for block in blocks:
        # The way of every library: the class and the names of parameters stay as they are.
        vars(block)["forward"] = _checkpointed(block.forward)
    return len(blocks)


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the largest parts of a module that have parts themselves, but do not only list them."""
    for child in module.children():
        if isinstance(child, (nn.Sequential, nn.ModuleList)):
            yield from _blocks(child)
        elif any(child.children()):
            yield child


def _checkpointed(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return recomputed


def _measure(bench: Bench, checkpointed: Subject) -> None:
    """Measure a compiled step with checkpoints and without: its peak, and what forward keeps.

    Where the peak lies outside of the blocks, checkpoints do not lower it. What forward keeps for
    backward shows their loss in each model. Where eager's checkpoints keep as much as they save,
    they show nothing, so eager is measured, too.

    Nothing compiled remains in between: the models have the same code, so that one could run with
    what was compiled for the other.
    """
    figures = bench.figures
    figures |= _measured(bench, checkpointed, "checkpointed")
    figures |= _measured(bench, bench.build_compiled(), "plain")
    eager = bench.build()
    figures["eager_plain_held_bytes"] = _held_bytes(bench, eager)
    _checkpoint_blocks(eager, bench.builder.model.blocks)
    figures["eager_checkpointed_held_bytes"] = _held_bytes(bench, eager)


def _measured(bench: Bench, compiled: Subject, name: str) -> dict[str, float]:
    return {
        f"{name}_peak_bytes": _peak_bytes(bench, compiled),
        f"{name}_held_bytes": _held_bytes(bench, compiled),
    }


def _peak_bytes(bench: Bench, subject: Subject) -> float:
    device, step = device_of(bench.builder.case.device), _step(bench, subject)
    memory = peak_memory(step, step, device=device, compile_peak_bytes=0)
    return float(memory.compiled_peak_bytes)


def _held_bytes(bench: Bench, subject: Subject) -> float:
    """Return the bytes that a forward keeps for its backward, and its output."""
    _step(bench, subject)
    call = subject.prepare(bench.planned)
    device = device_of(bench.builder.case.device)
    return float(held_bytes(lambda: subject.forward(call), device))


def _step(bench: Bench, subject: Subject) -> Step:
    """Return a step that leaves no gradients. Its first call may compile, so it is made here."""
    call = subject.prepare(bench.planned)

    def step() -> None:
        subject.step(call)
        subject.forget_gradients(call)

    subject.forget_gradients(call)
    step()
    return step
