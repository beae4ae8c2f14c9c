"""The practice ``export``: what PyTorch refuses to export, and what the old recipe does."""

import pytest
import torch
from torch import nn

from compilegate.judging.practices import judge_steps
from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices import export, loaded_programs
from compilegate.observe.practices.bench import Bench, keep_buffers
from compilegate.records.case import Case
from compilegate.records.request import Request
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.observed import observation


def exported(module, **example):
    """Return the steps of a module, by name, and the finding. AOTInductor is left out."""
    example = {"dims": {0: {0: "batch"}}, **example}
    seen = observation(module, "infer", "aot_eager", ("capture", "export"), **example)
    steps = {step.name: step for step in seen.practices["export"].steps}
    return steps, judge_steps(seen, "export")


def test_a_module_that_cannot_be_exported_fails_with_the_reason_of_pytorch():
    def branches(x):
        return x.sin() if x.sum() > 0 else x.cos()

    steps, finding = exported(lambda: branches)
    assert finding.outcome == "failed"
    name = "torch.export.export and torch.export.save"
    assert finding.summary.startswith(f"{name}: raised GuardOnDataDependentSymNode"), finding
    assert steps["torch._inductor.aoti_compile_and_package"].unavailable == (
        "the model cannot be exported"
    )


def test_the_recipe_of_old_tutorials_works_with_trace_alone():
    """PyTorch deprecates each part of it. Tracing gives the right numbers at each size."""
    steps, finding = exported(lambda: nn.Linear(4, 4))
    assert finding.outcome == "passed", finding
    saved = steps["torch.jit.save of its graph"]
    scripted = steps["torch.jit.script of its graph, torch.jit.save"]
    traced = steps["torch.jit.trace of its graph, torch.jit.save"]
    assert "object has no attribute 'save'" in saved.unavailable
    assert scripted.unavailable.startswith("the deprecated recipe raises OSError: Failed to get")
    assert (traced.raised, traced.unavailable) == ("", "")
    for size in (8, 5):
        assert len(steps[f"torch.jit.load, batch={size}"].outputs.errors) == 1


class Counting(nn.Module):
    """Counts its calls in a buffer that it reads, and halves its argument."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("calls", torch.ones(()))

    def forward(self, x):
        y = self.linear(x) * self.calls
        self.calls.add_(1)
        x.mul_(0.5)
        return y


def forgetful(module):
    """Return a package that loses what a call writes to buffers."""

    def call(x):
        with keep_buffers(lambda: dict(module.named_buffers())):
            return module(x)

    return call


@pytest.mark.parametrize(
    ("program", "failing"),
    [
        (lambda module: module.forward, set()),
        (lambda module: lambda x: module(x.clone()), {"", ", called again"}),
        (forgetful, {", called again"}),
    ],
    ids=["healthy", "argument", "buffer"],
)
def test_a_package_that_loses_a_write_fails(program, failing):
    case = Case.parse("m-cpu-infer-f32-default-static")
    inputs = {"inputs": lambda: (torch.rand(5, 4),)}
    entry = Model("m", "m", build=lambda: Example(Counting(), **inputs))
    builder = Builder(entry, case, 0, Progress(lambda stage: None))
    request = Request(case=case.id, wants=())
    bench = Bench(builder, request, builder.progress, Reference(builder), draws=False)
    subject = bench.build()
    call = subject.prepare(bench.planned)
    with torch.no_grad():
        answer = loaded_programs._answer(program(subject.module), call.args, call.kwargs)
    export._compare(bench, export._PACKAGED, [bench.planned], [answer])
    differing = {
        step.name.removeprefix(export._PACKAGED)
        for step in bench.steps
        if step.raised or any(wrong(error) for error in (*step.outputs.errors, *step.state.errors))
    }
    assert [step.raised for step in bench.steps] == ["", ""]
    assert differing == failing


def wrong(error):
    return error.compiled_rms > 1e-3
