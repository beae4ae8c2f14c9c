"""Export: save a model as a program, and load it in a process that lacks the model's code.

``torch.export`` saves a graph, and AOTInductor a library of compiled kernels. Old tutorials trace
the graph of ``torch._dynamo.export`` with ``torch.jit``, which PyTorch deprecates. PyTorch may
refuse this recipe, but the numbers of what it accepts must be right.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/export.html
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_aot_inductor.html
"""

from __future__ import annotations

import contextlib
import io
import pickle
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch._inductor
from torch import nn
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.utils import _pytree

from compilegate.observe import error_text
from compilegate.observe.device import out_of_memory
from compilegate.observe.model import forward
from compilegate.observe.model.calls import PlannedCall, sizes_of, varied_calls
from compilegate.observe.model.equality import is_same
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices import fresh_process
from compilegate.observe.practices.bench import Bench, keep_buffers
from compilegate.observe.practices.elsewhere import Elsewhere, Watched, without_memory
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.practice import Practice
from compilegate.zoo.example import Call, argument_of

WORKER = "compilegate.observe.practices.loaded_programs"
#: The recipe of old tutorials: what they do with the graph of ``torch._dynamo.export``.
RECIPE = "torch.jit.load"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_EXPORTED, _PACKAGED = "torch.export.load", "torch._inductor.aoti_load_package"
#: How the names of the state begin that a loaded program shows.
_SHOWN = {_EXPORTED: ("buffer ", "input"), _PACKAGED: ("input",)}


def observe(bench: Bench) -> Practice:
    """Save the model in each way; then load and call all of them in one fresh process."""
    if bench.draws:
        return Practice(unavailable="the model draws random numbers, which differ elsewhere")
    # The calls follow each other, so the reference must make no other calls between them.
    bench = replace(bench, reference=Reference(bench.builder))
    with (
        tempfile.TemporaryDirectory() as name,
        # It imports torch while the programs are made, which takes as long.
        fresh_process.prepared(WORKER, Path(name)) as process,
    ):
        folder = Path(name)
        files: dict[str, str] = {}
        subject = bench.build()
        program = _export(bench, subject, folder, files)
        _package(bench, program, folder, files)
        with bench.step("the module after torch.export") as facts:
            facts.add(bench.compare(bench.build(), subject))
        _follow_old_tutorials(bench, folder, files)
        _load(bench, program, process, files)
    practice = bench.practice()
    return replace(practice, graphs=practice.graphs + (program is not None))


def _export(
    bench: Bench, subject: Subject, folder: Path, files: dict[str, str]
) -> ExportedProgram | None:
    """Export the model and save the program, which shares weights and buffers with the model."""
    program = None
    with bench.step("torch.export.export and torch.export.save"):
        module, call = _module_of(subject), subject.prepare(bench.planned)
        shapes = _dynamic_shapes(bench, module, subject, call)
        with forward.setting(subject.case, None):
            program = torch.export.export(module, call.args, call.kwargs, dynamic_shapes=shapes)
        torch.export.save(program, folder / "program.pt2")
        files[_EXPORTED] = "program.pt2"
    return program


def _module_of(subject: Subject) -> nn.Module:
    """Return the module; for a function, one that has it as its forward, as export demands."""
    if isinstance(subject.module, nn.Module):
        return subject.module
    module = nn.Module()
    module.forward = subject.module
    return module


def _dynamic_shapes(bench: Bench, module: nn.Module, subject: Subject, call: Call) -> Any:
    """Return the declared dimensions, each dynamic between the least and the largest size."""
    vary = bench.builder.model.sizes(subject.case.device)
    dims = {
        name: Dim(name, min=min(sizes), max=max(sizes))
        for name, sizes in vary.items()
        if len(sizes) > 1
    }
    shapes = ShapesCollection()
    for argument, names in subject.example.dims.items():
        tensor = argument_of(argument, call.args, call.kwargs)
        shapes[tensor] = {
            dim % tensor.ndim: dims[name] for dim, name in names.items() if name in dims
        }
    return shapes.dynamic_shapes(module, call.args, call.kwargs)


def _package(
    bench: Bench, program: ExportedProgram | None, folder: Path, files: dict[str, str]
) -> None:
    """Compile the program ahead of time."""
    with bench.step("torch._inductor.aoti_compile_and_package"):
        if program is None:
            raise StepUnavailableError("the model cannot be exported")
        if bench.request.backend != "inductor":
            raise StepUnavailableError(f"the backend is {bench.request.backend}")
        with bench.progress.spend("compile"):
            torch._inductor.aoti_compile_and_package(
                program, package_path=str(folder / "package.pt2")
            )
        files[_PACKAGED] = "package.pt2"


def _follow_old_tutorials(bench: Bench, folder: Path, files: dict[str, str]) -> None:
    """Save the graph of ``torch._dynamo.export`` with ``torch.jit``, as far as PyTorch lets it."""
    bench.forget_compiled()
    subject = bench.build()
    call = subject.prepare(bench.planned)
    graph: nn.Module | None = None

    def buffers() -> Mapping[str, torch.Tensor]:
        return dict(graph.named_buffers()) if graph is not None else {}

    def trace(graph: nn.Module) -> nn.Module:
        return torch.jit.trace(  # type: ignore[no-any-return]
            graph, call.args or None, example_kwarg_inputs=call.kwargs or None, strict=False
        )

    with bench.step("torch._dynamo.export"), _refusable(subject):
        graph, _ = torch._dynamo.export(_module_of(subject))(*call.args, **call.kwargs)
    ways: Mapping[str, Callable[[nn.Module], nn.Module]] = {
        "torch.jit.save of its graph": lambda graph: graph,
        "torch.jit.script of its graph, torch.jit.save": torch.jit.script,
        "torch.jit.trace of its graph, torch.jit.save": trace,
    }
    for name, convert in ways.items() if graph is not None else ():
        with bench.step(name), _refusable(subject):
            with keep_buffers(buffers):  # tracing calls the graph
                converted = convert(graph)
            torch.jit.save(converted, folder / "traced.pt")
            files[RECIPE] = "traced.pt"


@contextlib.contextmanager
def _refusable(subject: Subject) -> Iterator[None]:
    """Take a step of the old recipe in the setting of the case.

    Raises:
        StepUnavailableError: PyTorch refuses it.
        Exception: The process cannot continue: memory ran out, or the GPU's context is lost.
    """
    with warnings.catch_warnings(), forward.setting(subject.case, None):
        warnings.simplefilter("ignore")  # all of it is deprecated
        try:
            yield
        except Exception as error:
            if out_of_memory.is_fatal(error):
                raise
            raise StepUnavailableError(_refusal(error_text.with_kind(error))) from error


def _refusal(raised: str) -> str:
    """Return why a step of the recipe is not taken, without addresses in memory."""
    return f"the deprecated recipe raises {_ADDRESS.sub('', raised)}"


def _load(
    bench: Bench,
    program: ExportedProgram | None,
    process: fresh_process.Prepared,
    files: Mapping[str, str],
) -> None:
    """Load the programs in a fresh process, call them at each size, and compare the answers."""
    planned = _planned(bench)
    answers: Mapping[str, Any] = {}
    with bench.step("a fresh process without the model's code"):
        job = {
            "programs": dict(files),
            "calls": _plain_calls(bench, planned),
            "modules": _modules_of_classes(program),
            "tf32": bench.request.tf32,
        }
        answers = process.answer(job, bench.progress.beat)
    for loader, results in answers.items():
        _compare(bench, loader, planned, results)


def _planned(bench: Bench) -> list[PlannedCall]:
    """Plan a call at the first sizes, and one at the first other size of each dimension."""
    builder, first = bench.builder, bench.planned
    vary = sizes_of(builder.case, builder.model.sizes(builder.case.device))
    others = {name: sizes[1] for name, sizes in vary.items() if len(sizes) > 1}
    wanted = [{**first.sizes, name: size} for name, size in others.items()]
    varied = varied_calls(bench.build().example, vary, builder.case)
    chosen = [next(call for call in varied if call.sizes == sizes) for sizes in wanted]
    return [first, *chosen]


def _plain_calls(bench: Bench, planned: Sequence[PlannedCall]) -> list[dict[str, Any]]:
    """Return the arguments of the calls, for a process that has no class of the model.

    Raises:
        StepUnavailableError: They contain more than tensors, numbers, text and containers.
    """
    subject = bench.build()
    calls = []
    for one in planned:
        call = subject.prepare(one)
        calls.append({"args": tuple(call.args), "kwargs": dict(call.kwargs)})
    file = io.BytesIO()
    try:
        torch.save(calls, file)
        file.seek(0)
        torch.load(file, weights_only=True)
    except (pickle.PickleError, AttributeError) as error:  # of a class that a recipe defines, too
        reason = f"an argument needs the model's code: {error_text.of(error)}"
        raise StepUnavailableError(reason) from None
    return calls


def _modules_of_classes(program: ExportedProgram | None) -> list[str]:
    """Return the modules of the classes that a program takes and returns, such as dataclasses."""
    classes: set[type] = set()

    def is_leaf(node: Any) -> bool:
        classes.add(type(node))  # PyTorch asks for every container
        return False

    for spec in () if program is None else (program.call_spec.in_spec, program.call_spec.out_spec):
        if spec is not None:
            nesting = _pytree.tree_unflatten([0] * spec.num_leaves, spec)
            _pytree.tree_leaves(nesting, is_leaf=is_leaf)
    return sorted({each.__module__ for each in classes})


def _compare(
    bench: Bench, loader: str, planned: Sequence[PlannedCall], answers: Sequence[Mapping[str, Any]]
) -> None:
    """Compare the answers of a program with eager's calls."""
    eager, loaded = bench.build(), bench.build()
    for call, answer in zip(planned, answers, strict=False):  # an error ends the answers
        at = ", ".join(f"{name}={size}" for name, size in call.sizes.items())
        name = f"{loader}, {at}" if at else loader
        _compare_call(replace(bench, at=call), name, loader, (eager, loaded), answer)
        buffers = _buffers_after(bench, call) if "again" in answer and loader != RECIPE else {}
        if buffers:  # the second call shows whether the program has kept them, too
            builder = replace(bench.builder, weights={**bench.builder.weights, **buffers})
            later = replace(
                bench, at=call, builder=builder, reference=Reference(builder), shared={}
            )
            sides = later.build(), later.build()
            _compare_call(later, f"{name}, called again", loader, sides, answer["again"])


def _compare_call(
    bench: Bench,
    name: str,
    loader: str,
    sides: tuple[Subject, Subject],
    answer: Mapping[str, Any],
) -> None:
    """Compare one answer with that of eager, the first of the two sides."""
    eager, loaded = sides
    run = eager.run
    eager.run = watched = Watched(run)
    loaded.run = elsewhere = Elsewhere(loaded, watched)
    elsewhere.answer = answer
    with bench.step(name) as facts:
        if loader == RECIPE and "raised" in answer:
            raise StepUnavailableError(_refusal(answer["raised"]))
        made = bench.compare(eager, loaded)
        facts.add(without_memory(made, *_SHOWN.get(loader, ())))
        if loader != RECIPE:  # tracing makes a dict of a ModelOutput
            facts.note("output", "structure", watched.nesting, answer["nesting"])
    eager.run = run


def _buffers_after(bench: Bench, planned: PlannedCall) -> dict[str, torch.Tensor]:
    """Return the buffers that a call of eager changes, as it leaves them."""
    eager = bench.build()
    before = {name: buffer.clone() for name, buffer in eager.buffers().items()}
    made = eager.call(eager.prepare(planned), planned.index)
    return {
        name: buffer.detach().clone()
        for name, buffer in eager.buffers().items()
        if made.error is None and name in before and not is_same(buffer, before[name])
    }
