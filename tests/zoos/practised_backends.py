"""Models whose backends, stances or options are healthy, and twins with a fault of one of them.

A backend that a recipe registers is in ``list_backends`` from then on. Each model has a process of
its own, so that no other model sees it.
"""

import torch
import torch._inductor.config
from torch import nn
from torch._dynamo import eval_frame, list_backends, register_backend
from torch._inductor.custom_graph_pass import CustomGraphPass

from compilegate import Example, model


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 16)
        self.outer = nn.Linear(16, 4)

    def forward(self, x):
        return self.outer(self.inner(x).relu())


class Averaging(Net):
    """It updates a buffer in each call, also in eval, so that two calls answer differently."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        self.mean.mul_(0.5).add_(x.mean(0), alpha=0.5)
        return super().forward(x - self.mean)


def practised(name):
    """Enter a model that is observed for the practice."""
    return model(name, family="practised", vary={"batch": (6, 5)}, practices=("backends",))


def example(net=Net):
    inputs = {0: {0: "batch"}}
    return Example(net(), inputs=lambda batch: (torch.randn(batch, 8),), dims=inputs)


def register(name, backend):
    """Register a backend, which each build of a model would do again."""
    if name not in list_backends():
        register_backend(backend, name=name)


def exact(graph, inputs):
    return graph.forward


def scaling(graph, inputs):
    return lambda *given: [1.01 * output for output in graph.forward(*given)]


def lacking(graph, inputs):
    raise ImportError("install the library of this backend")


@practised("sound_backends")
def sound_backends():
    register("exact", exact)
    register("lacking", lacking)
    return example(Averaging)


@practised("scaling_backend")
def scaling_backend():
    register("scaling", scaling)
    return example()


@practised("deaf_to_force_eager")
def deaf_to_force_eager():
    """The stance has no effect, so that compiled code is used. Its answers are right."""
    usual = eval_frame._callback_from_stance

    def deaf(callback):
        return callback if eval_frame._stance.stance == "force_eager" else usual(callback)

    if usual.__name__ != deaf.__name__:
        eval_frame._callback_from_stance = deaf
    return example()


@practised("deaf_to_fail_on_recompile")
def deaf_to_fail_on_recompile():
    """The stance has no effect, so that another size compiles again."""
    usual = eval_frame._callback_from_stance

    def deaf(callback):
        return callback if eval_frame._stance.stance == "fail_on_recompile" else usual(callback)

    if usual.__name__ != deaf.__name__:
        eval_frame._callback_from_stance = deaf
    return example()


@practised("deaf_to_reset")
def deaf_to_reset():
    """A reset forgets nothing, so that code compiled before still runs. Its answers are right."""
    torch.compiler.reset = torch._dynamo.reset = lambda: None
    return example()


class Pass(CustomGraphPass):
    """Takes the absolute value instead of ``relu`` where the condition holds."""

    def __init__(self, condition):
        self.condition = condition

    def __call__(self, graph):
        if self.condition():
            for node in graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default):
                node.target = torch.ops.aten.abs.default

    def uuid(self):
        return f"{type(self).__name__} {self.condition()}"


@practised("sound_with_options")
def sound_with_options():
    torch._inductor.config.post_grad_custom_pre_pass = Pass(lambda: False)
    return example()


@practised("wrong_without_epilogue_fusion")
def wrong_without_epilogue_fusion():
    is_off = Pass(lambda: not torch._inductor.config.epilogue_fusion)
    torch._inductor.config.post_grad_custom_pre_pass = is_off
    return example()
