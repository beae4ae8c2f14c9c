"""What a planted fault changes in the results of compiled code.

A process without a fault keeps the results of the first calls of its compiled code. A process with
a fault compares its own results with those. Both observe the same case under the same seed, so that
their calls have the same weights, inputs and random numbers.

``COMPILEGATE_EFFECTS`` names a folder. Its file ``order`` holds the number of the case, the kind of
fault, and the folder of the kept results. A process with a fault appends a line of JSON to
``changes`` for each result that it compared.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config

from tests.faults.catalogue import SOUND
from tests.faults.planting.hooks import Compiled, replace

#: Calls whose results are compared: with eager's random numbers, with Inductor's, and backwards.
#: Where blocks are compiled, each block is such a call.
CALLS = 60
#: The most elements of a tensor that are kept of the first calls, and of the later ones. Of a
#: larger tensor, these are evenly spaced ones, and as many means, in which each element counts.
_FIRST, _KEPT, _KEPT_LATER = 8, 2**17, 2**12


class Results:
    """Keeps the results of compiled code, or compares them with kept ones.

    Args:
        folder: Where the changes are written.
        sound: The folder of the kept results.
        keeps: Whether nothing is planted.
    """

    def __init__(self, folder: Path, sound: Path, *, keeps: bool) -> None:
        self._folder, self._sound, self._keeps = folder, sound, keeps
        self._counts: Counter[str] = Counter()

    def around(self, compiled: Compiled) -> Compiled:
        """Return compiled code whose first results are kept or compared."""

        def call(*inputs: Any) -> Any:
            outputs = compiled(*inputs)
            own = "" if torch._inductor.config.fallback_random else "own "
            self._see(f"{own}outputs", outputs, inputs)
            for node in _backwards(outputs):
                node.register_hook(self._see_gradients)
            return outputs

        return call

    def _see_gradients(self, gradients: Any, _: Any) -> None:
        self._see("gradients", gradients, ())

    def _see(self, group: str, results: Any, inputs: Any) -> None:
        """Keep or compare the next result of a group, unless no more are."""
        self._counts[group] += 1
        if self._counts[group] > CALLS:
            return
        key = f"{group} {self._counts[group]}"
        tensors = [value for value in results if isinstance(value, torch.Tensor)]
        with torch.no_grad():
            most = _KEPT if self._counts[group] <= _FIRST else _KEPT_LATER
            seen = {
                "values": [kept for tensor in tensors for kept in _values(tensor, most)],
                "layout": repr(_layout(results, inputs)),
                "generator": _generator(tensors),
            }
            kept = self._sound / f"{key}.pt"
            if self._keeps:
                torch.save(seen, kept)
            elif kept.exists():
                line = json.dumps({"result": key, **_change(torch.load(kept), seen)})
                with (self._folder / "changes").open("a") as file:
                    file.write(line + "\n")


def _backwards(outputs: Any) -> Iterator[Any]:
    """Yield the nodes of compiled backwards behind outputs, each once."""
    left = [o.grad_fn for o in outputs if isinstance(o, torch.Tensor) and o.grad_fn is not None]
    known = set()
    while left:
        node = left.pop()
        if node in known:
            continue
        known.add(node)
        if node.name().startswith("CompiledFunction"):
            yield node
        else:
            left += [of for of, _ in node.next_functions if of is not None]


def _values(tensor: torch.Tensor, most: int) -> list[torch.Tensor]:
    flat = tensor.detach().flatten()
    if flat.numel() <= most:
        return [flat.to("cpu", copy=True)]
    step = math.ceil(flat.numel() / most)
    end = flat.numel() // step * step
    means = flat[:end].view(-1, step).mean(1, dtype=_wide(flat))
    return [flat[::step].to("cpu", copy=True), means.cpu()]


def _wide(tensor: torch.Tensor) -> torch.dtype:
    """Return a dtype in which the sum of a tensor is exact enough."""
    return torch.complex128 if tensor.is_complex() else torch.float64


def _layout(results: Any, inputs: Any) -> list[Any]:
    """Return what is exact of results: metadata, and which share memory with which others."""
    given = [value for value in inputs if isinstance(value, torch.Tensor)]
    tensors = [value for value in results if isinstance(value, torch.Tensor)]
    places = [tensor.untyped_storage().data_ptr() for tensor in (*tensors, *given)]
    return [
        (tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad, places.index(place))
        for tensor, place in zip(tensors, places, strict=False)
    ]


def _generator(tensors: list[torch.Tensor]) -> torch.Tensor:
    if tensors and tensors[0].is_cuda:
        return torch.cuda.get_rng_state(tensors[0].device)
    return torch.get_rng_state()


def _change(sound: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """Return how far results are from kept ones, relative to the root mean square of these."""
    pairs = [*zip(sound["values"], seen["values"], strict=False)]
    fits = [(a.double(), b.double()) for a, b in pairs if a.numel() == b.numel() > 0]
    distances = [_distance(a, b) for a, b in fits]
    return {
        "rms": max((rms for rms, _ in distances), default=0.0),
        "largest": max((largest for _, largest in distances), default=0.0),
        "layout": sound["layout"] != seen["layout"],
        "generator": not torch.equal(sound["generator"], seen["generator"]),
    }


#: The distance of a number from NaN, and of anything from zero. JSON has no infinity.
_INFINITE = 1e30


def _distance(sound: torch.Tensor, seen: torch.Tensor) -> tuple[float, float]:
    """Return the root mean square and the largest distance, relative to the kept tensor's scale."""
    difference = torch.where(sound == seen, 0.0, seen - sound)
    difference[sound.isnan() & seen.isnan()] = 0.0
    scale = float(sound[sound.isfinite()].square().mean().sqrt())
    found = (float(difference.square().mean().sqrt()), float(difference.abs().max()))
    rms, largest = (d / scale if scale > 0 else d * _INFINITE for d in found)
    return _finite(rms), _finite(largest)


def _finite(number: float) -> float:
    return number if number < _INFINITE else _INFINITE


_done: list[str] = []


def obey(victim: str) -> None:
    """Plant what the file ``order`` asks for, at the first of several calls of a builder."""
    folder = Path(os.environ["COMPILEGATE_EFFECTS"])
    order = (folder / "order").read_text()
    if [order] == _done[-1:]:
        return
    _done.append(order)
    _, kind, sound = order.split("\n")
    replace(kind, victim, Results(folder, Path(sound), keeps=kind == SOUND).around)
