"""Checkpoints: save a compiled module's weights, load others into it, copy it, and move it.

``torch.compile(module)`` returns a module that holds the original one as ``_orig_mod``, and both
share their parameters. https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import nn

from compilegate.observe import nested
from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.model.subject import Subject
from compilegate.observe.model.weight_changes import change_weights
from compilegate.observe.practices.bench import Bench, StepFacts
from compilegate.observe.practices.unavailable import StepUnavailableError, unless_eager_raises
from compilegate.records.practice import Practice

#: The name under which the compiled module holds the original one.
PREFIX = "_orig_mod."

Weights = dict[str, torch.Tensor]


def observe(bench: Bench) -> Practice:
    """Take the steps of the practice, most of them with one compiled module."""
    compiled = bench.build_compiled()
    if not isinstance(compiled.module, nn.Module) or not isinstance(compiled.run, nn.Module):
        return Practice(unavailable="a function has no checkpoint")
    for _ in range(2):  # a model may fill a cache in its first call, and read it in the next
        bench.call(compiled)
    others = _others(bench)
    _save(bench, compiled)
    _load(bench, compiled, others)
    _switch_phase(bench, compiled, others)
    _copy(bench, compiled, others)
    _compile_in_place(bench, others)
    _move(bench)
    return bench.practice()


def _others(bench: Bench) -> Weights:
    """Return weights that differ from the case's."""
    other = bench.build()
    _change(bench, other)
    return _cloned(_state(other))


def _cloned(weights: Mapping[str, torch.Tensor]) -> Weights:
    return {name: value.clone() for name, value in weights.items()}


def _change(bench: Bench, subject: Subject) -> None:
    """Change the weights of a model in place, so that loading others shows."""
    tensors = [*subject.parameters().values(), *subject.buffers().values()]
    change_weights(tensors, subject.case.device, bench.request.seed)


def _module(subject: Subject) -> nn.Module:
    """Return the original module of a model."""
    assert isinstance(subject.module, nn.Module)
    return subject.module


def _compiled_module(subject: Subject) -> nn.Module:
    """Return what ``torch.compile`` returned for a model."""
    assert isinstance(subject.run, nn.Module)
    return subject.run


def _with_weights(bench: Bench, weights: Weights, *, assign: bool = False) -> Subject:
    """Return an eager model with other weights."""
    eager = bench.build()
    _module(eager).load_state_dict(weights, assign=assign)
    return eager


def _prefixed(weights: Mapping[str, torch.Tensor]) -> Weights:
    return {f"{PREFIX}{name}": value for name, value in weights.items()}


def _note_equal(
    facts: StepFacts, wanted: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor]
) -> None:
    """Note names, dtypes and values that differ. The names found may have the prefix."""
    plain = {name.removeprefix(PREFIX): value for name, value in found.items()}
    facts.note_names("the state_dict", wanted, plain)
    for name in (each for each in wanted if each in plain):
        saved, other = wanted[name], plain[name]
        facts.note(f"weight {name}", "dtype", saved.dtype, other.dtype)
        is_equal = torch.equal(saved, other)
        facts.note(f"weight {name}", "value", "as saved", "as saved" if is_equal else "another")


def _note_own(facts: StepFacts, own: Mapping[str, torch.Tensor], found: Weights) -> None:
    """Note tensors that are copies: who writes to a ``state_dict`` writes to the module."""
    for name, value in own.items():
        memory, other = nested.storage_key(value), found.get(f"{PREFIX}{name}")
        if memory is not None and other is not None:
            is_own = nested.storage_key(other) == memory
            facts.note(f"weight {name}", "memory", "its own", "its own" if is_own else "a copy's")


def _save(bench: Bench, compiled: Subject) -> None:
    original, run = _module(bench.build()).state_dict(), _compiled_module(compiled)
    with bench.step("state_dict of the compiled and of the original module", needed=0) as facts:
        facts.note_names("module.state_dict()", original, _state(compiled))
        facts.note_names(
            "torch.compile(module).state_dict()", _prefixed(original), run.state_dict()
        )
        _note_equal(facts, original, run.state_dict())
        _note_own(facts, _state(compiled), run.state_dict())
    with bench.step("torch.save, then torch.load with weights_only", needed=0) as facts:
        file = io.BytesIO()
        torch.save(run.state_dict(), file)
        file.seek(0)
        _note_equal(facts, original, torch.load(file, weights_only=True))
    with bench.step("save and load with safetensors", needed=0) as facts:
        try:
            from safetensors.torch import load, save
        except ImportError:
            raise StepUnavailableError("safetensors is not installed") from None
        # Safetensors refuses tensors that share memory, and transposed ones.
        dense = torch.contiguous_format
        apart = {name: one.clone(memory_format=dense) for name, one in run.state_dict().items()}
        on_cpu = {name: value.cpu() for name, value in original.items()}  # as they are loaded
        _note_equal(facts, on_cpu, load(save(apart)))


def _load(bench: Bench, compiled: Subject, others: Weights) -> None:
    """Load other weights through either module; compiled code must use them as it is."""
    with bench.step("load_state_dict of the compiled module", needed=0) as facts:
        _compiled_module(compiled).load_state_dict(_prefixed(others))
        facts.add(bench.compare(_with_weights(bench, others), compiled, weights=others))
    _change(bench, compiled)
    with bench.step("load_state_dict of the original module", needed=0) as facts:
        _module(compiled).load_state_dict(others)
        facts.add(bench.compare(_with_weights(bench, others), compiled, weights=others))
    with bench.step("load a compiled module's weights into eager", needed=0) as facts:
        saved = _compiled_module(compiled).state_dict()
        eager = _with_weights(bench, {n.removeprefix(PREFIX): value for n, value in saved.items()})
        facts.add(bench.compare(eager, compiled, weights=others))


def _switch_phase(bench: Bench, compiled: Subject, others: Weights) -> None:
    """Switch the compiled module to the other phase, call it there, and switch it back."""
    run, trains = _compiled_module(compiled), compiled.case.phase == "train"
    with bench.step("train() and eval() of the compiled module") as facts:
        eager = _with_weights(bench, others)
        for module in (run, _module(eager)):
            module.train(not trains)
        flags = [
            {name: part.training for name, part in module.named_modules()}
            for module in (_module(eager), _module(compiled))
        ]
        facts.note("training of every submodule", "value", *flags)
        # A dropout draws in training alone.
        builder = replace(bench.builder, training=not trains)
        switched = replace(bench, builder=builder, draws=bench.draws or not trains)
        facts.add(switched.compare(eager, compiled, weights=others))
        run.train(trains)
        run.load_state_dict(_prefixed(others))
        facts.add(bench.compare(_with_weights(bench, others), compiled, weights=others))


def _copy(bench: Bench, compiled: Subject, others: Weights) -> None:
    """Copy the compiled module. What changes the original must not change the copy."""
    with bench.step("copy.deepcopy of the compiled module") as facts:
        copied = _with_weights(bench, others)
        copied.run = copy.deepcopy(_compiled_module(compiled))
        copied.hold(copied.run.get_submodule(PREFIX.rstrip(".")))
        _change(bench, compiled)
        _note_equal(facts, others, _compiled_module(copied).state_dict())
        trained = [_trained(compiled), _trained(copied)]
        facts.note("requires_grad of every parameter", "value", *trained)
        facts.add(bench.compare(_with_weights(bench, others), copied, weights=others))


def _trained(subject: Subject) -> dict[str, bool]:
    """Return which parameters a backward computes gradients of."""
    return {name: each.requires_grad for name, each in _module(subject).named_parameters()}


def _compile_in_place(bench: Bench, others: Weights) -> None:
    """Compile with ``module.compile()``, which leaves names as they are."""
    bench.forget_compiled()
    compiled = bench.build()
    names = [*_module(compiled).state_dict()]
    case, backend = bench.builder.case, bench.request.backend
    with bench.step("module.compile() in place") as facts:
        _module(compiled).compile(**compiling.options(case, backend))
        facts.note_names("state_dict() after module.compile()", names, _state(compiled))
        facts.add(bench.compare(bench.build(), compiled))
        facts.require_graph(is_captured=compile_log.graphs() > 0, of=[_module(compiled)])
        bench.call(compiled)
    with bench.step("load_state_dict after module.compile()", needed=0) as facts:
        _module(compiled).load_state_dict(others)
        facts.add(bench.compare(_with_weights(bench, others), compiled, weights=others))
    _change(bench, compiled)
    with bench.step("load_state_dict(assign=True) after module.compile()") as facts:
        with unless_eager_raises():
            eager = _with_weights(bench, _cloned(others), assign=True)
        _module(compiled).load_state_dict(_cloned(others), assign=True)
        facts.add(bench.compare(eager, compiled, weights=others))


def _state(subject: Subject) -> Mapping[str, torch.Tensor]:
    return _module(subject).state_dict()


def _move(bench: Bench) -> None:
    """Change the dtype of a compiled module, which compiles again; then move it, on a GPU."""
    compiled = bench.build_compiled()
    bench.call(compiled)
    objects = compile_log.compilations()
    with bench.step("to(torch.bfloat16) of the compiled module", needed=objects) as facts:
        eager = bench.build()
        for module in (_module(eager), _compiled_module(compiled)):
            module.to(torch.bfloat16)
        facts.add(bench.compare_in(torch.bfloat16, eager, compiled))
    if compiled.case.device == "cpu":
        return
    with bench.step("to('cpu') and back of the compiled module") as facts:
        compiled = bench.build_compiled()
        bench.call(compiled)
        _compiled_module(compiled).to("cpu")
        _compiled_module(compiled).to(compiled.case.device)
        facts.add(bench.compare(bench.build(), compiled))
