"""A generated program: a list of statements over inputs, parameters and buffers, as source text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

#: The sizes of the dimension ``n``, where it varies: the first is compiled first.
SIZES = (6, 4)

Dynamic = Literal["static", "auto", "dynamic", "marked"]


@dataclass(frozen=True, kw_only=True)
class Value:
    """An input, a parameter or a buffer of a program.

    Attributes:
        name: Its name. Parameters and buffers are attributes of the module.
        text: The expression that makes it. Inputs may use ``n``, the size that varies.
        kind: What it is.
        dims: The dimensions whose size is ``n``.
        plain: The expression of a contiguous input of the same shape; empty if it is one.
    """

    name: str
    text: str
    kind: Literal["input", "parameter", "buffer"] = "input"
    dims: tuple[int, ...] = ()
    plain: str = ""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement of the forward method; it may have several lines.

    Attributes:
        text: The statement.
        makes: The variables that it assigns.
        reads: The variables, inputs, parameters and buffers that it uses.
        writes: Those that it changes in place.
        operator: The name of the operator, for the culprit.
        needs: Names in :data:`PREAMBLES` that must be defined before the module.
        alike: Variables of the same shape and dtype that may stand in for the one it makes.
        input_text: An expression that makes an input which may stand in for it; empty if none may.
        dims: The dimensions of that input whose size is ``n``.
        source: The line of the user's code that it is from; empty if there is none.
    """

    text: str
    makes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    operator: str = ""
    needs: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    input_text: str = ""
    dims: tuple[int, ...] = ()
    source: str = ""


#: Definitions that statements may need.
PREAMBLES = {
    "Halved": """\
class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.sign() / 2
""",
    "Straight": """\
class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient
""",
}


@dataclass(frozen=True, kw_only=True)
class Program:
    """A generated program. It is written down as source text, and generated without torch.

    Attributes:
        name: Its name: ``fuzz.SEED.NUMBER``.
        values: Its inputs, parameters and buffers.
        statements: The statements of its forward method.
        returns: The variables that it returns.
        phase: Whether gradients are judged.
        dynamic: How sizes are compiled.
        backend: The compiler backend.
        device: Where it is compiled and called. Its text is the same for each device.
        varies: Whether it is called at both sizes of ``n``.
    """

    name: str
    values: tuple[Value, ...]
    statements: tuple[Statement, ...]
    returns: tuple[str, ...]
    phase: Literal["infer", "train"] = "infer"
    dynamic: Dynamic = "static"
    backend: str = "inductor"
    device: str = "cpu"
    varies: bool = True

    @property
    def case(self) -> str:
        """The id of its case."""
        return f"{self.name}-{self.device}-{self.setting}"

    @property
    def setting(self) -> str:
        """The setting of its case."""
        return f"{self.phase}-f32-default-{self.dynamic}"

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The arguments of the forward method."""
        return tuple(value for value in self.values if value.kind == "input")

    @property
    def held(self) -> tuple[Value, ...]:
        """Its parameters and buffers."""
        return tuple(value for value in self.values if value.kind != "input")

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of its statements, each once."""
        return tuple(dict.fromkeys(one.operator for one in self.statements))

    @property
    def code(self) -> str:
        """The lines of its statements."""
        return "\n".join(one.text for one in self.statements)

    def pruned(self) -> Program:
        """Return the program without statements and values that nothing returned depends on.

        A statement that writes in place stays as long as what it writes to is of use.
        """
        wanted = set(self.returns)
        kept: list[Statement] = []
        changed = True
        while changed:
            kept = [one for one in self.statements if self._is_used(one, wanted)]
            more = {name for one in kept for name in (*one.reads, *one.writes)} - wanted
            wanted |= more
            changed = bool(more)
        values = tuple(value for value in self.values if value.name in wanted)
        if not any(value.kind == "input" for value in values):
            values = (*self.inputs[:1], *values)
        return replace(self, statements=tuple(kept), values=values)

    def _is_used(self, one: Statement, wanted: set[str]) -> bool:
        given = {value.name for value in self.values}
        return any(
            name in wanted or (name in one.writes and name in given)
            for name in (*one.makes, *one.writes)
        )

    def is_closed(self) -> bool:
        """Whether each variable is made before it is used, and something is returned."""
        known = {value.name for value in self.values}
        for one in self.statements:
            if not {*one.reads, *one.writes} <= known:
                return False
            known.update(one.makes)
        return bool(self.returns) and {*self.returns} <= known


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text in which whole names are replaced."""
    return re.sub(r"(?<![\w.])\w+\b", lambda found: names.get(found[0], found[0]), text)


def builder_lines(program: Program) -> Iterator[str]:
    """Yield the lines that define the class ``Program`` and the function ``inputs``."""
    yield from module_lines(program)
    yield ""
    yield ""
    yield "def inputs(n):"
    made = "".join(f"{value.text}, " for value in program.inputs).rstrip()
    yield f"    return ({made})"


def module_lines(program: Program) -> Iterator[str]:
    """Yield the lines that define the class ``Program``."""
    yield from _needed_lines(program)
    held = {value.name: f"self.{value.name}" for value in program.held}
    yield "class Program(nn.Module):"
    if held:
        yield "    def __init__(self):"
        yield "        super().__init__()"
        for value in program.held:
            if value.kind == "parameter":
                yield f"        self.{value.name} = nn.Parameter({value.text})"
            else:
                yield f'        self.register_buffer("{value.name}", {value.text})'
        yield ""
    yield from indented(_forward_lines(program, "forward", ["self"], held))


def function_lines(program: Program) -> Iterator[str]:
    """Yield the lines that define the function ``program``, for one that holds no tensors."""
    yield from _needed_lines(program)
    yield from _forward_lines(program, "program", [], {})


def _needed_lines(program: Program) -> Iterator[str]:
    for name in dict.fromkeys(need for one in program.statements for need in one.needs):
        yield from PREAMBLES[name].splitlines()
        yield ""


def _forward_lines(
    program: Program, name: str, first: Sequence[str], held: Mapping[str, str]
) -> Iterator[str]:
    arguments = ", ".join((*first, *(value.name for value in program.inputs)))
    yield f"def {name}({arguments}):"
    for one in program.statements:
        yield from (f"    {line}" for line in renamed(one.text, held).splitlines())
    returned = ", ".join(held.get(name, name) for name in program.returns)
    yield f"    return {returned}"


def indented(lines: Iterable[str], by: str = "    ") -> Iterator[str]:
    """Indent lines that are not empty."""
    return (f"{by}{line}" if line else line for line in lines)


def zoo_text(programs: Sequence[Program], set_up: Sequence[str] = ()) -> str:
    """Return a zoo file that defines these programs as models.

    Args:
        programs: The programs.
        set_up: Lines that each of their recipes begins with.
    """
    lines = ["from compilegate import Example, model", ""]
    for index, program in enumerate(programs):
        vary = f'vary={{"n": {SIZES}}}, ' if program.varies else ""
        lines += [
            "",
            f'@model("{program.name}", family="fuzz", {vary}settings=("{program.setting}",))',
            f"def program_{index}():",
            *(f"    {line}" for line in set_up),
            "    import torch",
            "    from torch import nn",
            "    from torch.nn import functional as F",
            "",
            *indented(builder_lines(program)),
            "",
            f"    dims = {dims_of(program)}",
            "    return Example(Program(), inputs=made, dims=dims, signal=False)",
            "",
        ]
        made = "inputs" if program.varies else f"lambda: inputs({SIZES[0]})"
        lines[-2] = lines[-2].replace("inputs=made", f"inputs={made}")
    return "\n".join(lines)


def dims_of(program: Program) -> dict[int, dict[int, str]]:
    """Return the dimensions of the arguments whose size varies, as ``Example.dims`` has them."""
    if not program.varies:
        return {}
    return {
        index: dict.fromkeys(value.dims, "n")
        for index, value in enumerate(program.inputs)
        if value.dims
    }
