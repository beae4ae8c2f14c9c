"""Observations of small models with probing calls, and compilers whose code is wrong."""

from torch import nn

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_forward
from tests.unit.observed import Linear, observation

WANTS = ("capture", "vary", "reuse", "respecialise", "every_layout")


def probed(module=Linear, phase="infer", backend="eager", wants=WANTS, **example):
    example = {"dims": {0: {0: "batch"}}, "signal": False, **example}
    return observation(module, phase, backend, wants, **example)


def verdict_of(seen, suite=test_forward):
    aspect = suite.__name__.removeprefix("suites.test_")
    return judge(seen, Budget(), aspect, suite.rule, ("capture", "vary")).verdict


def given_otherwise(change):
    """Return a compiler whose code changes what it is given, except weights."""

    def compiler(graph, inputs):
        def run(*given):
            return graph(*(t if isinstance(t, nn.Parameter) else change(t) for t in given))

        return run

    return compiler


def answering_otherwise(change):
    """Return a compiler whose code changes its answers, given the arguments."""

    def compiler(graph, inputs):
        return lambda *given: tuple(change(y, given) for y in graph(*given))

    return compiler


def replacing(name, function):
    """Return a compiler with another lowering of one function."""

    def compiler(graph, inputs):
        nodes = graph.graph.nodes
        found = [node for node in nodes if getattr(node.target, "__name__", node.target) == name]
        assert found
        for node in found:
            node.op, node.target = "call_function", function
        graph.recompile()
        return graph

    return compiler
