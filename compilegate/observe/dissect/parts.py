"""Parts of a case's model, as models of the zoo: the machinery that observes cases observes them.

A zoo file that :mod:`compilegate.triage` writes calls :func:`register`.
"""

from __future__ import annotations

import functools
import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from compilegate.observe import nested
from compilegate.observe.capture import compiling
from compilegate.observe.conditioning.signal import treat
from compilegate.observe.dissect import (
    allocations,
    checkpoints,
    constructions,
    cpp_lines,
    disabling,
    graph,
    lines,
    operators,
    own_code,
    profile,
    raising,
    stances,
    tree,
)
from compilegate.observe.dissect.copying import copied
from compilegate.observe.model.calls import (
    PlannedCall,
    first_call,
    invoke,
    planned_calls,
    varied_calls,
)
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases import probing_plan
from compilegate.records.case import REPLAYING_CALLS, Case
from compilegate.records.part import Part
from compilegate.zoo import registry
from compilegate.zoo.example import Call, Example

#: The fields of a part that are tuples, which JSON has not.
_LISTS = ("identities", "disabled", "without")


def register(parts: Iterable[Mapping[str, Any]]) -> None:
    """Add parts to the zoo.

    Args:
        parts: The fields of each :class:`Part`.
    """
    for fields in parts:
        lists = {name: tuple(fields.get(name, ())) for name in _LISTS}
        part = Part(**{**fields, **lists})
        case, model = Case.parse(part.case), registry.load()[Case.parse(part.case).model]
        whole = not part.path
        sizes = {**model.sizes(case.device), **{name: (n,) for name, n in part.sizes.items()}}
        registry.model(
            part.name,
            family="triage",
            vary=sizes if whole else None,
            blocks=model.blocks if whole else None,
            weights=model.weights,
            settings=("*",),
            devices=(case.device,),
            requires=model.requires,
        )(_recipe(part))


@functools.cache
def set_up(model: str, device: str) -> None:
    """Do to PyTorch what the recipe of a model does: programs of its operators may need it.

    The recipe may set a pass, or import a module that registers a lowering.

    Args:
        model: The model.
        device: The device that its recipe is given.
    """
    with torch.random.fork_rng(devices=[]), _disable_current_modes():
        registry.load()[model].example(device)


def _recipe(part: Part) -> Callable[[], Example]:
    def build() -> Example:
        with _disable_current_modes():  # no graph is captured in the mode that draws weights
            made = _tell_own(part) if part.own else _build(part)
        own_code.take_out(part.without)  # the recipe, which registers code, has run
        return made

    return build


def _build(part: Part) -> Example:
    """Build a part: the recipe of a model of the zoo."""
    subject = _subject(part)
    example, module = subject.example, subject.module
    if part.tree and isinstance(module, nn.Module):
        order = tree.called(module, part.path, lambda: subject.forward(_prepared(subject, 0)))
        Path(part.tree).write_text(json.dumps(order), encoding="utf-8")
    if tell := next((each for name, each in _TELLS.items() if getattr(part, name)), None):
        return tell(part, subject)
    example.signal = False
    options = {name: _resolved(value) for name, value in part.config.items()}
    example.config = {**example.config, **options}
    if not part.recomputes:
        checkpoints.keep_all()
    if part.disabled_at:
        disabling.disable_at(module, part.disabled_at)
    if part.stance:
        sizes = registry.load()[subject.case.model].sizes(subject.case.device)
        repeats = REPLAYING_CALLS if subject.case.uses_cuda_graphs else 2
        example.calls = stances.calls_under(part.stance, example, sizes, repeats)
    if not isinstance(module, nn.Module):
        return example
    for path in part.disabled:
        found = module.get_submodule(path)
        found.forward = torch.compiler.disable(found.forward)
    if not part.path:
        return example
    first = Call(*_recorded(part), before=_action(subject, 0, 1))
    return Example(
        module.get_submodule(part.path),
        calls=[first, *_later_calls(part), *_showing_calls(part, subject)],
        signal=False,
        config=example.config,
        with_grad=example.with_grad,
    )


def _resolved(value: Any) -> Any:
    """Return the value of an option: the functions, where it is a list of their names."""
    return {*map(pkgutil.resolve_name, value)} if isinstance(value, list) else value


def _subject(part: Part) -> Subject:
    """Build the model of the case, with the weights that the case has."""
    case = Case.parse(part.case)
    model = registry.load()[case.model]
    weights = _treated(case.model, case.device, part.seed)
    subject = Subject(model, case, part.seed, input_gradients=False, weights=weights)
    for path in part.identities:
        owner, _, name = path.rpartition(".")
        assert isinstance(subject.module, nn.Module)
        setattr(subject.module.get_submodule(owner), name, nn.Identity())
    return subject


@functools.cache
def _treated(name: str, device: str, seed: int) -> Mapping[str, torch.Tensor]:
    return treat(registry.load()[name], device, seed).state


_inputs: dict[tuple[str, tuple[str, ...], str, int], tuple[Any, Any]] = {}


def _recorded(
    part: Part, probe: str = "", index: int = 0
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return copies of the arguments that eager gives a submodule in a call.

    Args:
        part: The submodule.
        probe: The probing call; empty for another call.
        index: The number, from 0, of another call.
    """
    key = (part.path, part.identities, probe, index)
    if key not in _inputs:
        subject = _subject(part)
        assert isinstance(subject.module, nn.Module)

        def keep(_: nn.Module, args: Any, kwargs: Any) -> None:
            _inputs.setdefault(key, copied((args, kwargs)))

        subject.module.get_submodule(part.path).register_forward_pre_hook(keep, with_kwargs=True)
        call = _planned(subject, index)
        if probe:
            call = probing_plan.planned(probe, subject.example, call.sizes, subject.case)
        if act := _action(subject, 0, call.index + 1):
            act()
        subject.forward(subject.prepare(call))
        if key not in _inputs:
            raise RuntimeError(f"eager does not call {part.path}")
    args, kwargs = copied(_inputs[key])
    return args, kwargs


def _action(subject: Subject, begin: int, end: int) -> Callable[[], None] | None:
    """Return what a model's calls do before them, which may concern more than a submodule.

    Args:
        subject: The model.
        begin: The first of the calls.
        end: The one after the last.
    """
    actions = [call.before for call in subject.example.calls[begin:end] if call.before]

    def act() -> None:
        for action in actions:
            invoke(action, subject.module)

    return act if actions else None


def _showing_calls(part: Part, subject: Subject) -> Iterator[Call]:
    """Yield the calls that show the failure, where it is not the first one."""
    if part.index:
        inputs = _recorded(part, index=part.index)
        yield Call(*inputs, before=_action(subject, 1, part.index + 1))
    if part.probe:
        yield Call(*_recorded(part, part.probe))


def _planned(subject: Subject, index: int) -> PlannedCall:
    """Return a call of the case by its number, from 0; the first one if it has fewer."""
    case, example = subject.case, subject.example
    sizes = registry.load()[case.model].sizes(case.device)
    planned = planned_calls(example, sizes, case.device) + varied_calls(example, sizes, case)
    return next((call for call in planned if call.index == index), first_call(sizes))


def _prepared(subject: Subject, index: int) -> Call:
    """Return the arguments of a call of the case."""
    return subject.prepare(_planned(subject, index))


def _later_calls(part: Part) -> Iterator[Call]:
    """Yield calls with the same data in another order: rows are rolled."""
    for shift in range(1, part.calls):

        def rolled(tensor: torch.Tensor, shift: int = shift) -> torch.Tensor:
            return tensor.copy_(tensor.roll(shift, 0)) if tensor.dim() else tensor

        args, kwargs = nested.mapped(_recorded(part), rolled)
        yield Call(args, kwargs)


def _tell_graph(part: Part, subject: Subject) -> Example:
    """Write what a call of a part runs, and return an example that shows nothing."""
    case = subject.case
    if part.path:
        assert isinstance(subject.module, nn.Module)
        run: Any = subject.module.get_submodule(part.path)
        call = Call(*_recorded(part, index=part.index))
    else:
        run, call = subject.module, _prepared(subject, part.index)
    for name, tell in _OF_A_CALL.items():
        if target := getattr(part, name):
            found = tell(run, call, case, with_grad=subject.example.with_grad)
            Path(target).write_text(json.dumps(found), encoding="utf-8")
    return _nothing()


def _tell_line(part: Part, subject: Subject) -> Example:
    """Write the first line that computes something else, and return an example of nothing."""
    calls = [_planned(subject, index) for index in range(part.index + 1)]
    if part.probe:
        sizes = calls[0].sizes
        calls = [calls[0], probing_plan.planned(part.probe, subject.example, sizes, subject.case)]
    found = lines.first_difference(lambda: _subject(part), calls, part.backend)
    Path(part.lines).write_text(json.dumps(asdict(found)), encoding="utf-8")
    return _nothing()


def _tell_construction(part: Part, _: Subject) -> Example:
    """Write how a submodule is made and called, if it can be; return an example of nothing."""
    constructions.note()
    subject = _subject(part)
    assert isinstance(subject.module, nn.Module)
    calls = [Call(*_recorded(part)), *_showing_calls(part, subject)]
    found = constructions.of(subject.module.get_submodule(part.path), calls)
    if found is not None:
        Path(part.construction).write_text(json.dumps(asdict(found)), encoding="utf-8")
    return _nothing()


def _tell_own(part: Part) -> Example:
    """Write which code of others the compiler has, and return an example that shows nothing."""
    if not Path(part.own).exists():  # a recipe is run several times: at first, it registers
        early = {(one.kind, one.name, one.source) for one in own_code.registered()}
        _subject(part)
        found = [
            replace(one, is_late=(one.kind, one.name, one.source) not in early)
            for one in own_code.registered()
        ]
        Path(part.own).write_text(json.dumps([*map(asdict, found)]), encoding="utf-8")
    return _nothing()


def _tell_costs(part: Part, eager: Subject) -> Example:
    """Write the kernels or the memory of the first call, and return an example of nothing."""
    model, compiled = registry.load()[eager.case.model], _subject(part)
    compiling.compile_subject(compiled, model, "inductor")
    planned = first_call(model.sizes(eager.case.device))
    sides = [(subject, subject.prepare(planned)) for subject in (eager, compiled)]
    found = profile.kernels(*sides) if part.kernels else allocations.at_peak(*sides)
    text = json.dumps([asdict(one) for one in found])
    Path(part.kernels or part.held).write_text(text, encoding="utf-8")
    return _nothing()


def _tell_failing(part: Part, subject: Subject) -> Example:
    """Write which line of C++ does not compile, or which raises; return an example of nothing."""
    backend = "inductor" if part.cpp else part.backend
    compiling.compile_subject(subject, registry.load()[subject.case.model], backend)
    if part.cpp:
        cpp_lines.follow(Path(part.cpp))
    with compiling.configured(subject.example.config):
        calls = (_prepared(subject, index) for index in range(part.index + 1))
        line = raising.line_of(subject.step, calls)
    if part.raising:
        Path(part.raising).write_text(json.dumps(line), encoding="utf-8")
    return _nothing()


def _nothing() -> Example:
    return Example(nn.Linear(2, 2), inputs=lambda: (torch.ones(2, 2),), signal=False)


#: What tells of a call, by the field that names the file for it.
_OF_A_CALL: dict[str, Callable[..., Any]] = {
    "graph": graph.describe,
    "operators": operators.called,
    "checkpoints": checkpoints.drawn,
}
#: What tells of a part, by the field that names the file for it.
_TELLS: dict[str, Callable[[Part, Subject], Example]] = {
    **dict.fromkeys(_OF_A_CALL, _tell_graph),
    "lines": _tell_line,
    "construction": _tell_construction,
    "cpp": _tell_failing,
    "raising": _tell_failing,
    "kernels": _tell_costs,
    "held": _tell_costs,
}
