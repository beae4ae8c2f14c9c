"""Compile cases without compilegate: ``python -P -m tests.mutants.plain FOLDER CASE…``.

The healthy compiler stores the facts of each case with ``--store``. Another process compares its
own facts with those in the folder. Each prints a line of JSON for a case.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

from compilegate.observe import cache_folder
from compilegate.records.case import Case
from compilegate.zoo import registry
from compilegate.zoo.example import Example

ZOO = Path(__file__).with_name("zoo.py")
DYNAMIC = {"static": False, "auto": None, "dynamic": True}
#: What differs between two processes of one source.
_CHANCE = re.compile(
    r"0x[0-9a-f]{6,}|\b\d{9,}\b|/\S*/\S+\.py|(?<=_)c[a-z0-9]{51}|\b[a-z0-9]{52}\b"
    r"|(?<=__builtins_dict___)\d+"
)

Numbers = list[torch.Tensor]


class Side:
    """A case in one precision: its module, and what its calls leave."""

    def __init__(self, case: Case, dtype: torch.dtype | None = None) -> None:
        self.case, self.dtype = case, dtype
        self.entry = ENTRIES[case.model]
        torch.manual_seed(0)
        self.example: Example = self.entry.example(case.device)
        self.module = self.example.module.to(case.device, dtype)
        self.module.train(case.phase == "train")
        self.run: Any = self.module
        self.layouts: list[str] = []
        self.numbers: Numbers = []

    def take_calls(self) -> None:
        """Call the module at each size, and at the first size twice and at the end."""
        ((name, sizes),) = self.entry.vary.items()
        for number, size in enumerate((sizes[0], *sizes, sizes[0])):
            torch.manual_seed(100 + number)
            inputs = pytree.tree_map_only(
                torch.Tensor, self._moved, self.example.inputs(**{name: size})
            )
            if self.case.phase == "train" and inputs[0].is_floating_point():
                inputs[0].requires_grad_()
            with self._surroundings():
                output = self.run(*inputs)
            left = [*pytree.tree_leaves(output), *inputs]
            if self.case.phase == "train":
                _differentiate(output, number)
                left += [p.grad for p in self.module.parameters()] + [inputs[0].grad]
                self._step()
            self._note([*left, *self.module.parameters(), *self.module.buffers()])

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        dtype = self.dtype if tensor.is_floating_point() else None
        return tensor.to(self.case.device, dtype)

    @contextlib.contextmanager
    def _surroundings(self) -> Iterator[None]:
        casts = self.case.precision == "bf16" and self.dtype is None
        autocast = torch.autocast(self.case.device, torch.bfloat16, enabled=casts)
        with torch.set_grad_enabled(self.case.phase == "train"), autocast:
            yield

    @torch.no_grad()
    def _step(self) -> None:
        for parameter in self.module.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=0.05)
                parameter.grad = None

    def _note(self, found: Iterable[object]) -> None:
        """Note the layouts, aliases and numbers of tensors."""
        storages: dict[int, int] = {}
        for one in found:
            if not isinstance(one, torch.Tensor):
                self.layouts.append(repr(one))
                continue
            storage = storages.setdefault(one.untyped_storage().data_ptr(), len(storages))
            kind = (one.dtype, tuple(one.shape), one.stride(), one.storage_offset(), storage)
            self.layouts.append(f"{kind} {one.requires_grad}")
            self.numbers.append(one.detach().clone().cpu())


def _differentiate(output: object, seed: int) -> None:
    """Take the gradients of an output under random cotangents."""
    generator = torch.Generator().manual_seed(seed)
    wanted = [t for t in pytree.tree_leaves(output) if isinstance(t, torch.Tensor) and t.grad_fn]
    drawn = [torch.randn(t.shape, generator=generator) for t in wanted]
    torch.autograd.backward(wanted, [d.to(t) for d, t in zip(drawn, wanted, strict=True)])


def facts_of(case: Case) -> dict[str, Any]:
    """Compile a case. Return its code, guards, counts, layouts and numbers."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list
    from torch._inductor.graph import GraphLowering

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    side, code = Side(case), list[str]()
    side.run = torch.compile(side.module, dynamic=DYNAMIC[case.dynamic])
    with mock.patch.object(GraphLowering, "save_output_code", code.append):
        side.take_calls()
    entries = _debug_get_cache_entry_list(type(side.module).forward.__code__)
    counters = torch._dynamo.utils.counters
    return {
        "graphs": [f"{dict(counters[name])}" for name in ("frames", "graph_break")]
        + [f"{len(code)}"],
        "guards": _settled([str(entry.guard_manager) for entry in entries]),
        "code": _settled(code),
        "layouts": side.layouts,
        "numbers": side.numbers,
    }


def _settled(texts: Iterable[str]) -> list[str]:
    """Return the lines of texts without comments, addresses and paths."""
    lines = (line for text in texts for line in text.splitlines())
    return [_CHANCE.sub("…", line) for line in lines if not line.lstrip().startswith(("#", "//"))]


def compared(found: dict[str, Any], healthy: dict[str, Any]) -> dict[str, Any]:
    """Return in what facts differ from the healthy ones, and by how much."""
    parts = ("graphs", "guards", "code", "layouts")
    differs = [part for part in parts if found[part] != healthy[part]]
    result: dict[str, Any] = {}
    for part in differs:
        lines = zip(healthy[part], found[part], strict=False)
        first = next(((a, b) for a, b in lines if a != b), (str(len(healthy[part])), "length"))
        result[part] = [str(one)[:200] for one in first]
    if "layouts" in differs:
        differs.append("numbers")
        return {"differs": differs, **result}
    errors = [*map(distance, found["numbers"], healthy["numbers"])]
    if any(error > 4 * noise for error, noise in zip(errors, healthy["noise"], strict=True)):
        differs.append("numbers")
        over = [
            error / _usual(eager) for error, eager in zip(errors, healthy["eager"], strict=True)
        ]
        worst = max(range(len(over)), key=over.__getitem__)
        result |= {"worst": worst, "mutant": errors[worst], "over_eager": over[worst]}
        result |= {name: healthy[name][worst] for name in ("compiled", "eager")}
    return {"differs": differs, **result}


def _usual(eager: float) -> float:
    """Return the error that is usual for a number, given eager's.

    Where a module draws random numbers, eager draws others in float64, and its error says nothing.
    """
    return max(eager, 1e-7) if eager < 0.1 else 1e-4


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest difference over the largest number of the other one."""
    if one.shape != other.shape:
        return float("inf")
    one, other = (t.double().nan_to_num(1e30) for t in (one, other))
    scale = other.abs().max().clamp(min=1e-30) if other.numel() else 1.0
    return float((one - other).abs().max() / scale) if other.numel() else 0.0


def store(case: Case, path: Path) -> dict[str, Any]:
    """Store the healthy facts of a case, the noise of its numbers, and errors against float64."""
    found, again = facts_of(case), facts_of(case)
    eager, exact = Side(case), Side(case, torch.float64)
    eager.take_calls()
    exact.take_calls()
    for name, numbers in (("compiled", found["numbers"]), ("eager", eager.numbers)):
        found[name] = [*map(distance, numbers, exact.numbers)]
    found["noise"] = [*map(distance, again["numbers"], found["numbers"])]
    torch.save(found, path)
    return {"differs": []}


def main(folder: Path, names: Iterable[str], *, stores: bool) -> None:
    """Print a line for each case, up to the first one that crashes."""
    cache_folder.use_own()
    for name in names:
        path, began = folder / f"{name}.pt", time.monotonic()
        try:
            if stores:
                line = store(Case.parse(name), path)
            else:
                line = compared(facts_of(Case.parse(name)), torch.load(path))
        except Exception:
            line = {"crashed": traceback.format_exc()[-1500:]}
        line |= {"case": name, "seconds": round(time.monotonic() - began, 1)}
        if changes := sys.modules.get("mutation"):
            line["lines"] = {
                module: sorted(lines) for module, lines in changes.LINES.items() if lines
            }
            for lines in changes.LINES.values():
                lines.clear()
        print(json.dumps(line), flush=True)
        if "crashed" in line:
            break


ENTRIES = {entry.name: entry for entry in registry.load_file(ZOO)}

if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--store"]
    main(Path(words[0]), words[1:], stores="--store" in sys.argv)
