"""A process that a case may have spoiled observes no further case."""

import pytest
import torch

from compilegate.observe.model_session import ModelSession
from compilegate.records.request import Request
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.observed import Linear

CASE = "m-cpu-infer-f32-default-static"


@pytest.mark.parametrize("lacks", [True, False])
def test_memory_that_ran_out_spoils_a_process(lacks):
    def fail(x, y):
        raise torch.OutOfMemoryError("CUDA out of memory") if lacks else ValueError("odd")

    model = Model("m", "m", build=lambda: Example(Linear(fail), inputs=(torch.ones(2, 4),)))
    session = ModelSession({"m": model}, lambda stage: None)
    session.observe(Request(case=CASE, wants=("capture",), backend="eager"))
    assert session.is_spoiled is lacks


@pytest.mark.parametrize(
    ("raises", "status", "is_spoiled"),
    [
        (lambda x: True, "raised", True),
        (lambda x: not x.is_contiguous(), "completed", True),
        (lambda x: False, "completed", False),
    ],
    ids=["in the first call", "in a probing call", "nowhere"],
)
def test_what_compiled_code_alone_raises_spoils_a_process(raises, status, is_spoiled):
    def backend(graph, inputs):
        def run(*arguments):
            if any(raises(each) for each in arguments if isinstance(each, torch.Tensor)):
                raise ValueError("odd")
            return graph(*arguments)

        return run

    def build():
        inputs = lambda batch: (torch.randn(batch, 4),)  # noqa: E731
        return Example(torch.square, inputs=inputs, dims={0: {0: "batch"}}, signal=False)

    model = Model("m", "m", {"batch": (8, 5)}, build=build)
    session = ModelSession({"m": model}, lambda stage: None)
    wants = ("capture", "vary", "reuse", "respecialise", "every_layout")
    seen = session.observe(Request(case=CASE, wants=wants, backend=backend))
    assert (seen.status, session.is_spoiled) == (status, is_spoiled)
