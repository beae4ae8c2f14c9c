"""Programs made from the graph of a submodule, which the fuzzer's reduction can reduce."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

from compilegate.fuzzing.program import Program, Statement, Value, renamed
from compilegate.records.case import Case

#: How the names of Dynamo's inputs begin.
_PREFIX = re.compile(r"^l_(self_)?", re.IGNORECASE)

#: What a graph tells of a tensor, by the name of its node.
Graph = Mapping[str, Any]


class UnprintableError(Exception):
    """No program can be made from a graph. The text says why."""


def program_of(graph: Graph, case: Case, backend: str) -> Program:
    """Return a program that computes what a graph does, on random data of the same kind.

    Args:
        graph: What :mod:`compilegate.observe.dissect.graph` returns.
        case: The setting.
        backend: The compiler backend.

    Raises:
        UnprintableError: There is no graph, or a program has no such setting.
    """
    if why := graph.get("why"):
        raise UnprintableError(why)
    if case.device != "cpu" or case.precision != "f32" or case.weights != "f32_weights":
        raise UnprintableError("it computes in float32 on a CPU, and the case does not")
    names = _short_names(graph)
    made = {names[v["name"]]: _layout(v) for v in graph["values"]}
    statements = []
    for one in graph["statements"]:
        value = one["value"]
        layout = _layout(value) if value else ()
        makes, reads, writes = (
            tuple(names.get(name, name) for name in one[kind])
            for kind in ("makes", "reads", "writes")
        )
        statements.append(
            Statement(
                text=renamed(one["text"], names),
                makes=makes,
                reads=reads,
                writes=writes,
                operator=one["operator"],
                alike=tuple(n for n, other in made.items() if layout and other == layout),
                input_text=value["text"] if value else "",
                source=one["source"],
            )
        )
        if layout:
            made[makes[0]] = layout
    return Program(
        name="triage",
        values=tuple(
            Value(name=names[v["name"]], text=v["text"], kind=v["kind"]) for v in graph["values"]
        ),
        statements=tuple(statements),
        returns=tuple(names.get(name, name) for name in graph["returns"]),
        phase="train" if case.phase == "train" else "infer",
        dynamic=case.dynamic,  # type: ignore[arg-type]
        backend=backend,
        varies=False,
    ).pruned()


def _short_names(graph: Graph) -> dict[str, str]:
    """Return a name for each value: ``weight`` for ``l_self_parameters_weight_``, if it is free."""
    taken = {name for one in graph["statements"] for name in one["makes"]}
    names: dict[str, str] = {}
    for value in graph["values"]:
        short = _PREFIX.sub("", value["name"]).strip("_")
        for part in ("modules_", "parameters_", "buffers_"):
            short = short.replace(part, "")
        is_free = short.isidentifier() and short not in taken and not keyword.iskeyword(short)
        names[value["name"]] = short if is_free else value["name"]
        taken.add(names[value["name"]])
    return names


def _layout(value: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(map(str, value["layout"]))


def handled_by(program: Program, functions: Sequence[str]) -> bool:
    """Whether a function of the compiler has the name of the operator of a program: ``_erfc``.

    Args:
        program: A program of one operator.
        functions: The functions.
    """
    name = program.statements[0].operator.rpartition(".")[2].rstrip("_").removeprefix("special_")
    plain = [function.strip("_") for function in functions]
    return any(re.search(rf"(?:^|_){re.escape(name)}(?:_|$)", one) for one in plain if name)


def of_one_operator(program: Program) -> list[Program]:
    """Return a program for each kind of statement of one, in order, with inputs for what it reads.

    Statements are of one kind if they do the same with data of the same kind.
    """
    values = {value.name: value for value in program.values}
    found: dict[tuple[str, ...], Program] = {}
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
            numbered = {value.name: f"_{index}" for index, value in enumerate(used)}
            kind = (
                renamed(one.text.partition("=")[2], numbered),
                *(value.text for value in used),
            )
            if any(value.kind == "input" for value in used):
                found.setdefault(kind, alone)
        for name in one.makes:
            if one.input_text:
                values[name] = Value(name=name, text=one.input_text)
    return [*found.values()]
