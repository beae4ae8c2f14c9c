"""Programs made from the graph of a submodule, which the fuzzer's reduction can reduce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compilegate.fuzzing.program import Program, Statement, Value
from compilegate.records.case import Case

#: What a graph tells of a tensor, by the name of its node.
Graph = Mapping[str, Any]


class UnprintableError(Exception):
    """No program can be made from a graph. The text says why."""


def program_of(graph: Graph, case: Case, backend: str) -> Program:
    """Return a program that computes what a graph does, on random data of the same kind.

    Args:
        graph: What :mod:`compilegate.observe.dissect.graph` told.
        case: The setting.
        backend: The compiler backend.

    Raises:
        UnprintableError: There is no graph, or a program has no such setting.
    """
    if why := graph.get("why"):
        raise UnprintableError(why)
    if case.device != "cpu" or case.precision != "f32" or case.weights != "f32_weights":
        raise UnprintableError("a program computes in float32 on a CPU")
    made: dict[str, tuple[Any, ...]] = {v["name"]: _layout(v) for v in graph["values"]}
    statements = []
    for one in graph["statements"]:
        name, value = (one["makes"] or [""])[0], one["value"]
        layout = _layout(value) if value else ()
        statements.append(
            Statement(
                text=one["text"],
                makes=tuple(one["makes"]),
                reads=tuple(one["reads"]),
                writes=tuple(one["writes"]),
                operator=one["operator"],
                alike=tuple(n for n, other in made.items() if layout and other == layout),
                input_text=value["text"] if value else "",
            )
        )
        if layout:
            made[name] = layout
    return Program(
        name="triage",
        values=tuple(
            Value(name=v["name"], text=v["text"], kind=v["kind"]) for v in graph["values"]
        ),
        statements=tuple(statements),
        returns=tuple(graph["returns"]),
        phase="train" if case.phase == "train" else "infer",
        dynamic=case.dynamic,  # type: ignore[arg-type]
        backend=backend,
        varies=False,
    ).pruned()


def _layout(value: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(map(str, value["layout"]))


def of_one_operator(program: Program) -> list[Program]:
    """Return a program for each statement of one, in order, with inputs for what it reads."""
    values = {value.name: value for value in program.values}
    found = []
    for one in program.statements:
        if one.makes and {*one.reads, *one.writes} <= values.keys():
            used = tuple(values[name] for name in dict.fromkeys((*one.reads, *one.writes)))
            alone = Program(
                name=program.name,
                values=used,
                statements=(one,),
                returns=one.makes,
                phase=program.phase,
                dynamic=program.dynamic,
                backend=program.backend,
                varies=False,
            )
            if any(value.kind == "input" for value in used):
                found.append(alone)
        for name in one.makes:
            if one.input_text:
                values[name] = Value(name=name, text=one.input_text)
    return found
