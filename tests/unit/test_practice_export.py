"""The practice ``export``: what PyTorch refuses to export, and what the old recipe does."""

from torch import nn

from compilegate.judging.practices import judge_steps
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
