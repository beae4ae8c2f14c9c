"""Stances: go back to eager, or forbid compiling, while the program stays as it is; and reset.

https://docs.pytorch.org/docs/stable/generated/torch.compiler.set_stance.html
"""

from __future__ import annotations

from dataclasses import replace
from types import CodeType
from typing import Literal

import torch

from compilegate.observe.capture import compile_log
from compilegate.observe.measure import python_calls
from compilegate.observe.model.calls import varied_calls
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.bench import Bench, StepFacts
from compilegate.observe.practices.unavailable import StepUnavailableError

_Stance = Literal["force_eager", "eager_on_recompile"]

#: What decides whether compiled code is used: where it is, this function is not called.
_FORWARD = "the model's own forward"
_NOT_RESET = "torch.compiler.reset() did not reset: code compiled before it still runs"


def code_of(subject: Subject) -> CodeType | None:
    """Return the Python code of a model's forward; None if it has none."""
    function = getattr(subject.module, "forward", subject.module)
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def observe(bench: Bench) -> Subject:
    """Take each stance with one compiled model, and reset.

    Returns:
        The model. The call after the reset has compiled it.
    """
    compiled, in_python = bench.build_compiled(), False
    with bench.step(f'torch.compile(backend="{bench.request.backend}")') as facts:
        facts.add(bench.compare(bench.build(), compiled))
        is_captured, in_python = compile_log.graphs() > 0, _runs_in_python(bench, compiled)
        _require_new_code(facts, "captured", is_captured=is_captured, in_python=in_python)
    objects = compile_log.compilations()
    _take(bench, compiled, "force_eager", in_python=True)
    _take(bench, compiled, "eager_on_recompile", in_python=in_python)
    _fail_on_recompile(bench, compiled, in_python=in_python)
    with bench.step('set_stance("default") after other stances', needed=0) as facts:
        torch.compiler.set_stance("default")
        _compare(bench, compiled, facts, in_python=in_python)
    with bench.step("torch.compiler.reset()", needed=objects) as facts:
        torch.compiler.reset()
        before = compile_log.compilations()
        _compare(bench, compiled, facts)
        is_captured = compile_log.compilations() > before
        in_python = _runs_in_python(bench, compiled)
        _require_new_code(facts, "the next call", is_captured=is_captured, in_python=in_python)
    return compiled


def _require_new_code(facts: StepFacts, where: str, *, is_captured: bool, in_python: bool) -> None:
    """Require that the call after a reset compiles.

    A call that neither compiles nor runs in Python runs code that the reset should have forgotten.
    """
    if is_captured or in_python:
        facts.require_graph(is_captured=is_captured, where=where)
    else:
        facts.require(where, "a graph", _NOT_RESET)


def _compare(
    bench: Bench, compiled: Subject, facts: StepFacts, *, in_python: bool | None = None
) -> None:
    """Compare a call, and whether it runs the model's forward in Python.

    Args:
        bench: The bench.
        compiled: The compiled model.
        facts: What the step shows.
        in_python: Whether the forward must run in Python; None if that is not compared.
    """
    facts.add(bench.compare(bench.build(), compiled))
    if in_python is not None:
        runs = {True: "a run in Python", False: "no run in Python"}
        facts.require(_FORWARD, runs[in_python], runs[_runs_in_python(bench, compiled)])


def _runs_in_python(bench: Bench, compiled: Subject) -> bool:
    """Make the call, and return whether the model's forward itself runs.

    Dynamo runs other code in its place. Answers do not show which one ran.
    """
    with python_calls.counter() as counted:
        bench.call(compiled)
    own = code_of(compiled)
    return any(code is own for code, _ in counted.by_code())


def _take(bench: Bench, compiled: Subject, stance: _Stance, *, in_python: bool) -> None:
    """Call a model under a stance: at its size, and at another one, which runs in Python."""
    with (
        bench.step(f'set_stance("{stance}")', needed=0) as facts,
        torch.compiler.set_stance(stance),
    ):
        _compare(bench, compiled, facts, in_python=in_python)
    with (
        bench.step(f'set_stance("{stance}") at another size', needed=0) as facts,
        torch.compiler.set_stance(stance),
    ):
        _compare(_at_another_size(bench, compiled), compiled, facts, in_python=True)


def _fail_on_recompile(bench: Bench, compiled: Subject, *, in_python: bool) -> None:
    with (
        bench.step('set_stance("fail_on_recompile")', needed=0) as facts,
        torch.compiler.set_stance("fail_on_recompile"),
    ):
        _compare(bench, compiled, facts, in_python=in_python)
    with (
        bench.step('set_stance("fail_on_recompile") at another size', needed=0) as facts,
        torch.compiler.set_stance("fail_on_recompile"),
    ):
        elsewhere, refused = _at_another_size(bench, compiled), False
        try:
            elsewhere.call(compiled)
        except RuntimeError as error:
            refused = "fail_on_recompile" in str(error)
            if not refused:
                raise
        wanted = "an error that names the stance"
        facts.require("raised", wanted, wanted if refused else "no error")


def _at_another_size(bench: Bench, subject: Subject) -> Bench:
    """Return a bench that makes a call of other sizes, and adds to the same steps.

    Raises:
        StepUnavailableError: All calls of the model have the same sizes.
    """
    sizes = bench.builder.model.sizes(subject.case.device)
    for planned in varied_calls(subject.example, sizes, subject.case):
        if planned.sizes != bench.planned.sizes:
            return replace(bench, at=planned)
    raise StepUnavailableError("all calls of the model have the same sizes")
