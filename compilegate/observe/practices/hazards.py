"""Hazards: patterns that break graphs or compile again, each as written and rewritten.

Dynamo decides what is captured, so the graphs run through ``aot_eager``, which generates no code.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.graph_breaks_index.html
"""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import torch
import torch._dynamo.utils
from torch._dynamo.exc import TorchRuntimeError, Unsupported, UserError

from compilegate.observe import error_text
from compilegate.observe.capture import compiling
from compilegate.observe.capture.compile_log import CompileLog
from compilegate.observe.compare.call_comparer import CallComparer
from compilegate.observe.model.calls import PlannedCall, planned_calls
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.builder import Builder
from compilegate.observe.practices.bench import Bench, Compared, StepFacts
from compilegate.records import hazard as records
from compilegate.records.call import Checked
from compilegate.records.observation import Capture
from compilegate.records.practice import Practice
from compilegate.zoo.example import Example
from compilegate.zoo.hazard import Hazard
from compilegate.zoo.registry import Model

#: Captures as every backend does, and runs the graphs with PyTorch's own kernels.
BACKEND = "aot_eager"

#: The link from a graph break to PyTorch's registry, which numbers them.
_LINK = re.compile(r"gb/gb(\d+)")


def observe(bench: Bench) -> Practice:
    """Observe the hazards that the case's model lists."""
    listed = bench.build().example.hazards
    if not listed:
        return Practice(unavailable="the model's Example lists no hazards")
    found = tuple(_observe(bench, hazard) for hazard in listed)
    return replace(bench.practice(), hazards=found)


def _observe(bench: Bench, hazard: Hazard) -> records.Hazard:
    """Call a hazard as written, with ``fullgraph=True``, and rewritten."""
    pattern = _builder(bench, hazard, lambda: hazard.build()[0])
    rewrite = _builder(bench, hazard, lambda: hazard.build()[1])
    as_written, whole = _Trial(bench, pattern, pattern), _Trial(bench, pattern, pattern)
    rewritten = _Trial(bench, pattern, rewrite)
    with bench.step(f"{hazard.name}, as written") as facts:
        as_written.run(facts, fullgraph=False)
    with bench.step(f"{hazard.name}, with fullgraph=True") as facts:
        whole.run(facts, fullgraph=True)
    with bench.step(f"{hazard.name}, rewritten") as facts:
        rewritten.run(facts, fullgraph=True)
    return records.Hazard(
        name=hazard.name,
        torch=torch.__version__,
        as_written=as_written.written,
        whole=whole.written,
        rewritten=rewritten.written,
        breaks=hazard.breaks,
        captured_whole=hazard.whole,
        recompiles=hazard.recompiles,
        rewritten_recompiles=hazard.rewritten_recompiles,
    )


def _builder(bench: Bench, hazard: Hazard, build: Callable[[], Example]) -> Builder:
    """Return what builds one of the two examples of a hazard, with weights of its own."""
    return replace(bench.builder, model=Model(hazard.name, "hazards", build=build), weights={})


class _Trial:
    """Compiles one way of writing a hazard, and makes its calls on both sides.

    Args:
        bench: Counts graphs and the time.
        eager: Builds what is right: the hazard as written.
        compiled: Builds what is compiled.

    Attributes:
        written: What ``torch.compile`` did.
    """

    def __init__(self, bench: Bench, eager: Builder, compiled: Builder) -> None:
        self._bench = bench
        self._eager, self._compiled = eager, compiled
        self._is_rewrite = compiled is not eager
        self.written = records.Written()

    def run(self, facts: StepFacts, *, fullgraph: bool) -> None:
        """Make all calls, until Dynamo refuses one.

        Args:
            facts: Receives the comparisons.
            fullgraph: Whether a graph break is an error.

        Raises:
            Exception: Compiled code raises, eager does not, and ``fullgraph`` is not the reason.
        """
        self._bench.forget_compiled()
        eager, compiled = self._eager(), self._compiled()
        chosen = compiling.options(compiled.case, BACKEND)
        compiled.run = torch.compile(compiled.module, fullgraph=fullgraph, **chosen)
        progress, reference = self._bench.progress, Reference(self._eager)
        half = compiled.case.computes_in_half
        comparer = CallComparer(eager, compiled, reference, self._eager, progress.time, half=half)
        log, refused = CompileLog(), ""
        for planned in planned_calls(compiled.example, {}, compiled.case.device):
            made, printed = _call(eager, planned)
            with progress.spend("compile"):
                result, printed_too = _call(compiled, planned)
            log.after_call(planned.index)
            if fullgraph and result.error is not None and is_refusal(result.error):
                refused = error_text.with_kind(result.error)
                break
            if result.error is not None and made.error is None:
                raise result.error
            if self._is_rewrite:  # what output= does not pick differs in kind
                made.rest, result.rest = {}, {}
            compared = comparer.of_call(planned, made, result)
            if not self._is_rewrite:
                facts.add(compared)
                facts.note("printed text", "value", repr(printed), repr(printed_too))
            else:
                facts.add(_of_rewrite(compared, made, result))
        self.written = _written(log.capture(), refused)


def is_refusal(error: BaseException) -> bool:
    """Whether Dynamo raises an error because it cannot capture the whole.

    PyTorch 2.11 raises ``TorchRuntimeError``, with the link of a graph break, if an operator
    raises while Dynamo traces it. The code may catch that error.
    """
    if isinstance(error, TorchRuntimeError):
        return _LINK.search(str(error)) is not None
    return isinstance(error, (Unsupported, UserError))


def _of_rewrite(compared: Compared, made: Result, result: Result) -> Compared:
    """Return what is to be equal: a rewrite takes other arguments, and keeps state elsewhere."""
    outputs, gradients, _ = compared
    both = {f"gradient {name}" for name in made.gradients.keys() & result.gradients.keys()}
    kept = tuple(found for found in gradients.differences if found.where in both)
    return outputs, replace(gradients, differences=kept), Checked()


def _call(subject: Subject, planned: PlannedCall) -> tuple[Result, str]:
    """Make a call. Return its result and what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = subject.call(subject.prepare(planned), planned.index)
    return result, printed.getvalue()


def _written(capture: Capture, refused: str) -> records.Written:
    # One line may break in the code itself and in what Dynamo resumes after an earlier break.
    places: dict[tuple[str, object], str] = {}
    for each in capture.breaks:
        line = each.place and (each.place.file, each.place.line)
        places.setdefault((each.id or _id_of(each.reason), line), str(each.place or ""))
    found = [(identity, place) for (identity, _), place in places.items()]
    known = {identity for identity, _ in found}
    found += [(identity, "") for identity in _left_to_eager() - known]
    found.sort()
    compiled = Counter(item.code for item in capture.compilations if item.graph)
    return records.Written(
        breaks=tuple(identity for identity, _ in found),
        places=tuple(place for _, place in found),
        recompiles=max((count - 1 for count in compiled.values()), default=0),
        refused=refused,
    )


def _id_of(reason: str) -> str:
    """Return the id in a reason, or the first line of a reason that has none."""
    if number := _LINK.search(reason):
        return f"GB{number[1]}"
    if reason.startswith("generic_jump"):  # a branch after which Dynamo compiles on has no link
        return "GB0170"
    return error_text.one_line(reason)


def _left_to_eager() -> set[str]:
    """Return the ids of what left a frame to eager, such as a break in a loop."""
    metrics = torch._dynamo.utils.get_compilation_metrics()
    return {_id_of(e.fail_reason) for e in metrics if e.fail_reason and not e.has_guarded_code}
