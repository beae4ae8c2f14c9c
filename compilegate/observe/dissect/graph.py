"""The graph that Dynamo captures of a module, as Python statements over tensors."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch._dynamo
from torch import fx

from compilegate.observe.capture import compile_log
from compilegate.observe.capture.source_place import place
from compilegate.observe.model.forward import setting
from compilegate.records.case import Case
from compilegate.zoo.example import Call

#: Names in generated code, and how a script writes them.
_KNOWN = {"device": "torch.device", "inf": 'float("inf")', "nan": 'float("nan")'}
#: Operators of Python, where PyTorch's name is another.
_OF_PYTHON = {
    "mult": "mul",
    "mod": "remainder",
    "matmult": "matmul",
    "floordiv": "floor_divide",
    "bitand": "bitwise_and",
    "bitor": "bitwise_or",
    "bitxor": "bitwise_xor",
    "usub": "neg",
    "invert": "bitwise_not",
    "noteq": "ne",
    "gte": "ge",
    "lte": "le",
}
#: A frame of a stack, with its line of code.
_FRAME = re.compile(r'File "(.+)", line (\d+), in (\S+)\n\s*(.+)')
#: An operator of a library, perhaps with its overload.
_PACKET = re.compile(r"torch\.ops\.(?P<library>\w+)\.(?P<name>\w+)(?:\.\w+)?$")
_TORCH = Path(torch.__file__).parent
#: The most elements of a constant that are written down.
_CONSTANT = 16


class UnprintableError(Exception):
    """A graph cannot be written as a program of tensors. The text says why."""


def describe(run: Any, call: Call, case: Case, *, with_grad: bool) -> dict[str, Any]:
    """Return the graph of a call: its values, its statements and what it returns.

    Each value has a name and an expression that makes one like it: of the same shape, strides,
    dtype and range. Each statement has its text, the names that it makes, reads and writes, its
    line of the user's code, and such an expression. ``why`` says why there is no such graph; then
    there is nothing else.

    Args:
        run: The module or function.
        call: Its arguments.
        case: The setting.
        with_grad: Whether grad mode is on in *infer*, too.
    """
    graphs: list[tuple[fx.GraphModule, list[Any]]] = []
    values: dict[str, Any] = {}

    def backend(graph: fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append((graph, inputs))
        made: Any = _Recording(graph, values)
        return made.run

    compile_log.reset()
    try:
        compiled: Any = torch.compile(run, backend=backend, dynamic=False)
        with setting(case, None, with_grad=with_grad):
            compiled(*call.args, **call.kwargs)
        if len(graphs) != 1:
            return {"why": f"{len(graphs)} graphs were captured"}
        return _described(graphs[0][0], values)
    except Exception as error:
        return {"why": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    finally:
        compile_log.reset()


class _Recording(fx.Interpreter):
    """Runs a graph, and keeps an expression for each value as it was before later writes."""

    def __init__(self, graph: fx.GraphModule, values: dict[str, Any]) -> None:
        super().__init__(graph)
        self._values = values

    def run_node(self, n: fx.Node) -> Any:
        made = super().run_node(n)
        if isinstance(made, torch.Tensor) and n.name not in self._values:
            layout = (str(made.dtype), list(made.shape), list(made.stride()))
            self._values[n.name] = {"text": expression(made), "layout": layout}
        return made


def expression(tensor: torch.Tensor) -> str:
    """Return an expression that makes a tensor of the same shape, strides, dtype and range.

    As large a share of its elements is infinite or NaN, and zeros stay zeros: an operator may fail
    for these alone.
    """
    value = tensor.detach()
    shape = ", ".join(map(str, value.shape)) if value.dim() else "()"
    if value.numel() == 0:
        text = f"torch.empty({shape}, dtype={value.dtype})"
    elif value.dtype == torch.bool:
        text = f"torch.rand({shape}) > 0.5"
        text = f"({text})"
    elif value.is_complex():
        text = f"torch.randn({shape}, dtype={value.dtype})"
    elif not value.is_floating_point():
        low, high = int(value.min()), int(value.max())
        text = f"torch.randint({low}, {high + 1}, ({shape},), dtype={value.dtype})"
        text = text.replace("((),)", "()")
    elif not value.any():
        text = f"torch.zeros({shape}, dtype={value.dtype})"
    else:
        text = _floats(value, shape) + "".join(_not_finite(value, shape))
    return _strided(text, value)


def _floats(value: torch.Tensor, shape: str) -> str:
    finite = value.float().nan_to_num(0.0, 0.0, 0.0)
    scale = float(f"{finite.std(correction=0).item():.1g}") if value.numel() > 1 else 1.0
    if value.numel() > 1 and finite.min() >= 0:
        text = f"torch.rand({shape})"
        scale = float(f"{finite.max().item():.1g}")
    else:
        text = f"torch.randn({shape})"
    if scale > 0 and not 0.3 < scale < 3:
        text = f"{scale:g} * {text}"
    if value.dtype != torch.float32:
        text = f"({text}).to({value.dtype})" if "*" in text else f"{text}.to({value.dtype})"
    return text


def _not_finite(value: torch.Tensor, shape: str) -> Iterator[str]:
    """Yield what puts infinities and NaN into a tensor, each for its share of the elements."""
    for number in (torch.inf, -torch.inf, torch.nan):
        alike = torch.isclose(value, value.new_tensor(number), equal_nan=True)
        if share := alike.float().mean().item():
            chosen = f"torch.rand({shape}) < {share:.2g}" if share < 1 else "torch.tensor(True)"
            yield f".masked_fill({chosen}, float('{number}'))"


def _strided(text: str, value: torch.Tensor) -> str:
    if value.is_contiguous():
        return text
    size, stride = tuple(value.shape), tuple(value.stride())
    if value.dim() == 2 and value.t().is_contiguous() and "masked_fill" not in text:
        rows = f"{size[1]}, {size[0]}"
        return text.replace(f"({size[0]}, {size[1]}", f"({rows}", 1) + ".t()"
    return f"torch.empty_strided({size}, {stride}, dtype={value.dtype}).copy_({text})"


def _described(graph: fx.GraphModule, values: dict[str, Any]) -> dict[str, Any]:
    _leave_out_defaults(graph)
    code = graph.graph.python_code("self")
    tree = ast.parse(inspect.cleandoc(code.src))
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    constants = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            constants[node.name] = _constant(graph, str(node.target))
        elif node.op == "call_module":
            raise UnprintableError(f"the graph calls a module, {node.target}")
    unknown = {*code.globals} - {"torch", *_KNOWN}
    given = [node for node in graph.graph.nodes if node.op == "placeholder"]
    inputs = [node.name for node in given]
    held = {n.name: "parameter" if "parameters" in n.name else "input" for n in given}
    targets = {str(node.target) for node in given}
    if missing := [name for name in inputs if name not in values]:
        raise UnprintableError(f"{missing[0]} is no tensor")
    statements, returns = list[dict[str, Any]](), list[str]()
    for node in function.body:
        if isinstance(node, ast.Return):
            returns = _names(node)
        elif _is_name_of(node, targets):
            continue
        elif (made := _statement(node, constants)) is not None:
            statements.append(made | {"value": values.get((made["makes"] or [""])[0])})
    sources = {node.name: source_of(node) for node in graph.graph.nodes}
    for one in statements:
        one["source"] = next((sources[name] for name in one["makes"] if name in sources), "")
    texts = " ".join(one["text"] for one in statements)
    if odd := sorted(name for name in unknown if name in texts):
        raise UnprintableError(f"the graph uses {', '.join(odd)}")
    return {
        "values": [
            *({"name": name, "kind": held[name], **values[name]} for name in inputs),
            *({"name": name, "kind": "input", **made} for name, made in constants.items()),
        ],
        "statements": statements,
        "returns": returns,
    }


def source_of(node: fx.Node) -> str:
    """Return the line of the user's code that made a node: its file, number and text."""
    frames = frames_of(node)
    return str(frames[-1]) if frames else ""


class Frame(NamedTuple):
    """A line of the user's code that runs.

    Attributes:
        file: Its file.
        line: Its number.
        function: The function that has it.
        text: The line itself.
    """

    file: str
    line: int
    function: str
    text: str

    @property
    def source(self) -> str:
        """Its file and number, as they read on every machine."""
        return place(self.file, self.line, self.function).source

    def __str__(self) -> str:
        return f"{place(self.file, self.line, self.function)}: {self.text}"


def frames_of(node: fx.Node) -> list[Frame]:
    """Return the lines of the user's code that made a node: the innermost is the last."""
    return frames_in(node.stack_trace or "")


def frames_in(stack: str) -> list[Frame]:
    """Return the lines of the user's code in a stack, as Python prints it."""
    found = _FRAME.findall(stack)
    frames = [Frame(file, int(line), function, text) for file, line, function, text in found]
    return [frame for frame in frames if not Path(frame.file).is_relative_to(_TORCH)]


def _leave_out_defaults(graph: fx.GraphModule) -> None:
    """Leave out words that an operator takes for granted: one computation has one text."""
    for node in graph.graph.nodes:
        if node.op == "call_function":
            words = {name: word for name, word in node.kwargs.items() if isinstance(word, str)}
            granted = words.items() & _defaults(node.target.__name__)
            node.kwargs = {n: given for n, given in node.kwargs.items() if n not in dict(granted)}


def _defaults(operator: str) -> set[tuple[str, Any]]:
    """Return the words that an operator takes where it is given none."""
    packet = getattr(torch.ops.aten, operator, None)
    overloads = (getattr(packet, name) for name in packet.overloads()) if packet else ()
    arguments = (argument for overload in overloads for argument in overload._schema.arguments)
    return {
        (one.name, one.default_value) for one in arguments if isinstance(one.default_value, str)
    }


def _is_name_of(node: ast.stmt, targets: set[str]) -> bool:
    """Whether a statement only gives an argument the name of its node."""
    match node:
        case ast.Assign(value=ast.Name(id=name)):
            return name in targets
    return False


def _constant(graph: fx.GraphModule, target: str) -> dict[str, Any]:
    value = getattr(graph, target)
    if not isinstance(value, torch.Tensor):
        raise UnprintableError(f"the graph holds {target}, a {type(value).__name__}")
    layout = (str(value.dtype), list(value.shape), list(value.stride()))
    if value.numel() > _CONSTANT:
        return {"text": expression(value), "layout": layout}
    text = f"torch.tensor({value.tolist()}, dtype={value.dtype})"
    return {"text": text, "layout": layout}


class _Plain(ast.NodeTransformer):
    """Writes the names of generated code as a script does."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in _KNOWN:
            return ast.parse(_KNOWN[node.id], mode="eval").body
        return node


def _statement(node: ast.stmt, constants: dict[str, Any]) -> dict[str, Any] | None:
    """Return a statement of generated code; None for one that only frees memory."""
    match node:
        case ast.Assign(value=ast.Constant(value=None)):
            return None
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            if name in constants:
                return None
            assert node.value is not None
            plain = ast.Assign([ast.Name(name)], _Plain().visit(node.value), lineno=0)
            makes = [name]
        case _:
            makes, plain = [], _Plain().visit(node)
    return {
        "text": ast.unparse(ast.fix_missing_locations(plain)),
        "makes": makes,
        "reads": sorted({*_names(plain)} - {*makes, "torch", "float"}),
        "writes": sorted({*_written(plain)}),
        "operator": _operator(plain),
    }


def _names(node: ast.AST) -> list[str]:
    return [found.id for found in ast.walk(node) if isinstance(found, ast.Name)]


def _written(node: ast.AST) -> Iterator[str]:
    """Yield the names of what a statement changes in place."""
    for found in ast.walk(node):
        match found:
            case ast.AugAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
                yield name
            case ast.Call(func=ast.Attribute(attr=attr, value=ast.Name(id=name))) if (
                attr.endswith("_") and not attr.endswith("__") and name != "torch"
            ):
                yield name


def _operator(node: ast.AST) -> str:
    """Return the name of the function that a statement calls: ``acme::scale`` of an operator."""
    for found in ast.walk(node):
        if isinstance(found, ast.Call):
            called = ast.unparse(found.func)
            if (packet := _PACKET.match(called)) is None:
                return called.rpartition(".")[2]
            is_own = packet["library"] in ("aten", "prims")
            return packet["name"] if is_own else f"{packet['library']}::{packet['name']}"
    for found in ast.walk(node):
        match found:
            case ast.BinOp(op=used) | ast.UnaryOp(op=used) | ast.Compare(ops=[used]):
                name = type(used).__name__.lower()
                return _OF_PYTHON.get(name, name)
            case ast.Subscript():
                return "getitem"
    return "assignment"
