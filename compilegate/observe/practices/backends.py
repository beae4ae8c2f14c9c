"""Backends, modes, options and stances: each way to compile a model is right, or says why not.

https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo
import torch._inductor
from torch._dynamo.utils import counters

from compilegate.observe import error_text
from compilegate.observe.capture import compile_log, compiling, cuda_graphs
from compilegate.observe.device import device as device_of
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices import stances, throughput
from compilegate.observe.practices.bench import Bench, StepFacts
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.practice import Practice, figures_of

#: The backends by which people find the part of PyTorch that is wrong. PyTorch tags them *debug*,
#: so that ``list_backends`` leaves them out, as it does those of PyTorch's own tests and tools.
_LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition")
#: Options of Inductor that change code, and need no tuning.
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"epilogue_fusion": False, "shape_padding": False},
    {"freezing": True},
    {"triton.cudagraphs": True},
)
#: Arguments that ``torch.compile`` must refuse, and what its error must name.
_REFUSED: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
    ("an unknown option", {"options": {"no_such_option": True}}, ("no_such_option",)),
    ("an option of another type", {"options": {"freezing": "yes"}}, ("freezing",)),
    (
        "a mode and options together",
        {"mode": "reduce-overhead", "options": {"freezing": True}},
        ("mode", "options"),
    ),
    ("an unknown mode", {"mode": "no-such-mode"}, ("no-such-mode",)),
    ("an unknown backend", {"backend": "no_such_backend"}, ("no_such_backend",)),
)


def observe(bench: Bench) -> Practice:
    """Take each stance, then compile in each mode, with options, and with each backend."""
    if stances.code_of(bench.build()) is None:
        return Practice(unavailable="the model has no forward that is written in Python")
    compiled = stances.observe(bench)
    _modes(bench, compiled)
    for options in _OPTIONS:
        _with_options(bench, options)
    for name, arguments, named in _REFUSED:
        _refuse(bench, name, arguments, named)
    for name in (*_LADDER, *torch._dynamo.list_backends()):
        if name != bench.request.backend:
            _with_backend(bench, name)
    return bench.practice()


def _compile(
    bench: Bench, backend: str = "inductor", *, graphs: bool = False, **arguments: Any
) -> Subject:
    """Return a model that is compiled in another way than its case says.

    Args:
        bench: The bench.
        backend: The compiler backend.
        graphs: Whether it records CUDA graphs: then each call begins a step, as in a user's loop.
        arguments: Other arguments of ``torch.compile``.
    """
    compiled = bench.build()
    run: Any = torch.compile(
        compiled.module, **(compiling.options(compiled.case, backend) | arguments)
    )

    def begin_step(*args: Any, **kwargs: Any) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return run(*args, **kwargs)

    compiled.run = begin_step if graphs else run
    return compiled


def _compare(bench: Bench, facts: StepFacts, compiled: Subject, *, graphs: bool) -> None:
    """Compare a call, which compiles the model.

    Args:
        bench: The bench.
        facts: What the step shows.
        compiled: The model.
        graphs: Whether it records a CUDA graph, which the third call replays.

    Raises:
        StepUnavailableError: PyTorch recorded no CUDA graph of this model.
    """
    before = compile_log.compilations()
    for _ in range(2 if graphs else 0):
        bench.call(compiled)
    facts.add(bench.compare(bench.build(), compiled))
    facts.require_graph(is_captured=compile_log.compilations() > before)
    compiled.let_go()
    if graphs and not (recorded := cuda_graphs.recorded()):
        reasons = cuda_graphs.left_out(counters["inductor"], recorded)
        raise StepUnavailableError("; ".join(reasons) or "no CUDA graph was recorded")


def _need_inductor(bench: Bench, options: dict[str, Any] | None = None) -> bool:
    """Return whether options of Inductor ask for CUDA graphs.

    Raises:
        StepUnavailableError: The session has another backend, or the device has no CUDA graphs.
    """
    if bench.request.backend != "inductor":
        raise StepUnavailableError(f"the session has the backend {bench.request.backend}")
    if graphs := bool((options or {}).get("triton.cudagraphs")):
        _need_graphs(bench)
    return graphs


def _need_graphs(bench: Bench) -> None:
    if not device_of(bench.builder.case.device).records_graphs:
        raise StepUnavailableError("CUDA graphs need a GPU")


def _modes(bench: Bench, usual: Subject) -> None:
    """Compile in each other mode that does not tune, and time it against the mode *default*.

    Args:
        bench: The bench.
        usual: The model, compiled in the mode *default*.
    """
    modes: dict[str, dict[str, Any]] = torch._inductor.list_mode_options()
    for mode, options in modes.items():
        if not options:
            continue
        other = None
        with bench.step(f'mode="{mode}"') as facts:
            if options.get("max_autotune"):
                raise StepUnavailableError("it tunes for minutes: only cases in this mode have it")
            graphs = _need_inductor(bench, options)
            compiled = _compile(bench, mode=mode, graphs=graphs)
            _compare(bench, facts, compiled, graphs=graphs)
            other = compiled
        if other is not None and not any(step.raised for step in bench.steps):
            _time(bench, usual, other, mode.replace("-", "_"))


def _time(bench: Bench, usual: Subject, other: Subject, mode: str) -> None:
    """Time calls in two modes; a ratio above 1 means that the other mode is faster."""
    timing, seen = throughput.measure(bench, usual, other)
    bench.figures |= {
        "default_call_ms": min(timing.eager_ns) / 1e6,
        f"{mode}_call_ms": min(timing.compiled_ns) / 1e6,
        **figures_of(mode, seen),
        f"{mode}_busy_share": timing.busy,
    }
    other.let_go()


def _with_options(bench: Bench, options: dict[str, Any]) -> None:
    bench.forget_compiled()
    with bench.step(f"options={options}") as facts:
        graphs = _need_inductor(bench, options)
        compiled = _compile(bench, mode=None, options=options, graphs=graphs)
        _compare(bench, facts, compiled, graphs=graphs)


def _refuse(bench: Bench, name: str, arguments: dict[str, Any], named: tuple[str, ...]) -> None:
    """Give ``torch.compile`` a wrong argument, which its error must name."""
    with bench.step(name) as facts:
        said = "no error"
        try:
            bench.call(_compile(bench, **arguments))
        except Exception as error:
            said = error_text.of(error)
        for word in named:
            wanted = f"the word {word}"
            facts.require("the error", wanted, wanted if word in said else said)


def _with_backend(bench: Bench, name: str) -> None:
    bench.forget_compiled()
    with bench.step(f'backend="{name}"') as facts:
        graphs = name == "cudagraphs"
        if name == "inductor":
            _need_inductor(bench)
        if graphs:
            _need_graphs(bench)
        try:
            _compare(bench, facts, _compile(bench, name, graphs=graphs), graphs=graphs)
        except Exception as error:
            cause = getattr(error, "inner_exception", error)
            if isinstance(cause, ImportError):
                raise StepUnavailableError(error_text.of(cause)) from None
            raise
