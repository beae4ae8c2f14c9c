"""Dynamic strategies: what a user does whose batch size or sequence length varies.

Inputs are padded to a few sizes; or dimensions are marked, so that one graph serves all sizes; or
each size is compiled, up to a limit. What the backend has a part in runs with that of the case:
padding, marks, and the sizes 1 and 0. What Dynamo alone decides, the limit and the names of
``dynamic_sources``, runs with the backend of :mod:`.recompile_limits`.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_dynamic_shapes.html
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.compiler.config
from torch._dynamo import decorators

from compilegate.observe.capture import compiling, varying_sources
from compilegate.observe.capture.compile_log import CompileLog
from compilegate.observe.practices import buckets, recompile_limits, varied_sizes
from compilegate.observe.practices.bench import Bench, StepFacts
from compilegate.observe.practices.buckets import Compiled
from compilegate.observe.practices.sized_calls import SizedCalls
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.observe.practices.varied_sizes import Sizes, VariedSizes, text_of
from compilegate.records.practice import Practice


def observe(bench: Bench) -> Practice:
    """Pad to buckets, mark dimensions, name sources, and exceed the recompile limit."""
    sizes = varied_sizes.of_case(bench)
    if sizes is None:
        return Practice(unavailable="the model declares no dimension that takes several sizes")
    options = compiling.options(bench.builder.case, bench.request.backend)
    one_size = buckets.observe(bench, sizes, {**options, "dynamic": False})
    if one_size is not None:
        strategies = _Strategies(bench, sizes, one_size, {**options, "dynamic": None})
        strategies.mark_weakly()
        strategies.mark_unbacked()
        strategies.name_sources()
        recompile_limits.observe(bench, [sizes.first, *sizes.others(sizes.leading)], one_size)
    return bench.practice()


@dataclass(frozen=True)
class _Strategies:
    """The strategies by which one graph serves several sizes.

    Attributes:
        bench: Keeps the steps.
        sizes: The sizes of the model.
        one_size: What the model compiles at one size.
        options: The arguments of ``torch.compile``, with ``dynamic=None``.
    """

    bench: Bench
    sizes: VariedSizes
    one_size: Compiled
    options: Mapping[str, Any]

    def mark_weakly(self) -> None:
        """Mark every declared dimension, without an error where the model needs one size.

        Dynamo compiles again for 1 and for 0, at which a dimension broadcasts or is empty.
        """

        def mark(tensor: torch.Tensor, dim: int, name: str) -> None:
            decorators.maybe_mark_dynamic(tensor, dim)

        sizes = self.sizes
        calls = SizedCalls(self.bench, self.options, mark)
        if self._serve("maybe_mark_dynamic", calls, sizes.others(*sizes.declared)):
            alone = [sizes.with_size(name, 1) for name in sizes.declared]
            for one in (*alone, sizes.with_size(sizes.leading, 0)):
                name = f"maybe_mark_dynamic, then {sizes.change(one)}"
                with self.bench.step(name, needed=self.one_size.objects) as facts:
                    facts.add(calls.compare(one))

    def mark_unbacked(self) -> None:
        """Mark the leading dimension as one whose size no code may depend on, not even on 1.

        The other dimensions keep their size: much code branches on the length of a sequence.
        """
        sizes, dims = self.sizes, self.bench.build().example.dims.values()
        named = Counter(name for names in dims for name in names.values())
        takes_id = "shape_id" in inspect.signature(decorators.mark_unbacked).parameters

        def mark(tensor: torch.Tensor, dim: int, name: str) -> None:
            if name != sizes.leading:
                return
            if takes_id:  # dimensions of one name have one size
                decorators.mark_unbacked(tensor, dim, shape_id=name)
            elif named[name] == 1:
                decorators.mark_unbacked(tensor, dim)
            else:
                raise StepUnavailableError(
                    f"mark_unbacked of torch {torch.__version__} has no shape_id, and "
                    f"{named[name]} dimensions are called {name}"
                )

        calls = SizedCalls(self.bench, self.options, mark)
        smallest = [sizes.with_size(sizes.leading, size) for size in (1, 0)]
        self._serve("mark_unbacked", calls, [*sizes.others(sizes.leading), *smallest])

    def name_sources(self) -> None:
        """Name the inputs that vary in a configuration, which overrides ``dynamic=False``.

        PyTorch itself knows the names, from calls that make it compile again.
        """
        others = self.sizes.others(*self.sizes.declared)
        entries: list[str] = []
        calls = SizedCalls(self.bench, {"backend": recompile_limits.BACKEND, "dynamic": None})
        with self.bench.step("dynamic=None, to learn which sources vary"):
            for one in (self.sizes.first, *others):
                calls.call(one)
            entries += varying_sources.varied()
            if not entries:
                raise StepUnavailableError("PyTorch recompiled nothing, so it names no source")
        if self.bench.has_failed:
            return
        calls = SizedCalls(self.bench, {"backend": recompile_limits.BACKEND, "dynamic": False})
        config: Any = torch.compiler.config  # PyTorch adds patch() when it is imported
        with config.patch(dynamic_sources=",".join(entries)):
            self._serve("dynamic_sources", calls, others)

    def _serve(self, name: str, calls: SizedCalls, others: Sequence[Sizes]) -> bool:
        """Call at the first sizes, which compiles, and at others, which the same code must serve.

        What follows a graph break receives other tensors, which have no marks. It may compile
        again.

        Args:
            name: What the user does, as the steps' names begin.
            calls: Makes the calls.
            others: The other sizes.

        Returns:
            Whether the first call returned.
        """
        with self.bench.step(
            f"{name}, {text_of(self.sizes.first)}", needed=self.one_size.objects
        ) as facts:
            log = CompileLog()
            facts.add(calls.compare(self.sizes.first))
            self._require_no_more_breaks(facts, log)
        if self.bench.has_failed:
            return False
        for one in others:
            then = f"{name}, then {self.sizes.change(one)}"
            with self.bench.step(then, needed=self.one_size.objects - 1) as facts:
                facts.add(calls.compare(one))
        return True

    def _require_no_more_breaks(self, facts: StepFacts, log: CompileLog) -> None:
        log.after_call(0)
        seen = log.capture()
        more = {
            str(one)
            for one in (*seen.breaks, *seen.fallbacks)
            if one.place not in self.one_size.breaks
        }
        wanted = "none beyond those of dynamic=False"
        facts.require("graph breaks", wanted, "; ".join(sorted(more)) or wanted)
