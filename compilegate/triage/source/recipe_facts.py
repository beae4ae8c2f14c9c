"""What a script must know of a recipe: whether it makes a module, and how it gives arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from compilegate.triage.source.origins import Origins

#: Functions of torch that make a tensor.
_FACTORIES = {"arange", "full", "linspace", "ones", "rand", "randint", "randn", "tensor", "zeros"}
#: Methods that return a tensor without gaps, in memory of its own.
_DENSE = {"t", "transpose", "permute", "to", "clone", "contiguous", "add", "mul", "abs", "sigmoid"}
#: A variable of a class or function, of a closure, and a default: ``Net.calls``, ``f[log]``.
_HELD, _CLOSED = re.compile(r"(\w+)\.(\w+)"), re.compile(r"\w+\[(\w+)\]")
_DEFAULT = re.compile(r"(\w+)\((\w+)\)")


class RecipeFacts:
    """What the text of a recipe tells.

    Args:
        text: The lines that define the function ``recipe``, which returns a dictionary.
    """

    def __init__(self, text: str) -> None:
        self._text, self._tree = text, ast.parse(text)
        tree = self._tree
        self._functions = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        self._functions |= {*_imported_functions(tree)}
        self._origins = Origins(tree)
        self._fields: dict[str, list[ast.expr]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict":
                for word in node.keywords:
                    values = self._fields.setdefault(word.arg or "", [])
                    values += self._origins.of(word.value)

    @property
    def is_module(self) -> bool | None:
        """Whether the recipe makes an ``nn.Module`` rather than a function; None if unknown."""
        found = {self._makes_module(value) for value in self._fields.get("module", ())}
        return found.pop() if len(found) == 1 else None

    @property
    def gives_fresh_tensors(self) -> bool:
        """Whether all tensors are positional, without gaps, and each in memory of its own."""
        given = [*self._fields.get("inputs", ()), *self._fields.get("args", ())]
        bodies = [each for value in given for each in self._bodies(value)]
        is_plain = all(map(_is_constant, self._fields.get("kwargs", ()))) and bool(bodies)
        return is_plain and all(
            isinstance(body, ast.Tuple) and self._are_fresh(body.elts) for body in bodies
        )

    def _bodies(self, value: ast.expr) -> list[ast.expr]:
        """Return the expressions for arguments: a function returns them, or a call gives them."""
        made = self._origins.returned(value)
        if not made and isinstance(value, ast.Call):
            made = self._origins.returned(value.func)
        return made or [value]

    @property
    def has_dims(self) -> bool:
        """Whether the recipe names dimensions, which are marked as dynamic."""
        return "dims" in self._fields

    @property
    def picks_output(self) -> bool:
        """Whether the recipe picks a part of the output, the only one that gradients are of."""
        return "output" in self._fields

    @property
    def config(self) -> Iterator[str]:
        """The lines that set the options of the compiler which the recipe names."""
        for value in self._fields.get("config", ()):
            if isinstance(value, ast.Dict):
                for key, option in zip(value.keys, value.values, strict=True):
                    if isinstance(key, ast.Constant):
                        module, _, name = str(key.value).partition(".")
                        yield f"import torch._{module}.config"
                        yield f"torch._{module}.config.{name} = {ast.unparse(option)}"

    def variable_of(self, where: str) -> str:
        """Return an expression for a variable that differs, where the recipe makes it; else empty.

        Args:
            where: As in :class:`~compilegate.records.call.Difference`: ``closure record.log[0]``,
                ``function record[log]``, ``attribute class Net.calls``.
        """
        kind, path = _kind_and_path(where)
        recipe = self._tree.body[-1]
        assigned = {n.id for n in ast.walk(recipe) if _is_assigned(n)}
        made = {n.name for n in ast.walk(recipe) if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
        if kind == "closure":
            names = path.partition("[")[0].split(".")
            return next((name for name in names if name in assigned), "")
        if closed := _CLOSED.match(path) if kind == "function" else None:
            return closed[1] if closed[1] in assigned else ""
        held = _HELD.match(path) if kind in ("class", "function") else None
        is_own = held is not None and held[1] in made and held[1] not in self._places
        return f"vars({held[1]}).get({held[2]!r})" if held is not None and is_own else ""

    def shared(self, where: str) -> tuple[str, str] | None:
        """Return the object that holds a variable which all calls share, and the variable's name.

        Args:
            where: ``class Net.calls``, ``function f.calls``, ``function f(given)[0]`` or
                ``global zoo.SEEN[0]``.

        Returns:
            Two texts; None where the script has no such variable.
        """
        kind, path = _kind_and_path(where)
        if kind == "global":
            found = (n for n in re.split(r"[.\[ ]", path) if n in self._globals)
            return next((("sys.modules[__name__]", name) for name in found), None)
        if kind not in ("class", "function"):
            return None
        if held := _HELD.match(path):
            place, name = self._places.get(held[1]), held[2]
        elif default := _DEFAULT.match(path):
            place, name = self._places.get(default[1]), "__defaults__"
        else:
            return None
        return (place, name) if place else None

    @property
    def _places(self) -> dict[str, str]:
        """Expressions for the classes, functions and methods of the script, by their names."""
        classes = [n for n in self._tree.body if isinstance(n, ast.ClassDef)]
        found = {
            method.name: f"{made.name}.{method.name}"
            for made in classes
            for method in made.body
            if isinstance(method, ast.FunctionDef)
        }
        named = (n for n in self._tree.body[:-1] if isinstance(n, (ast.ClassDef, ast.FunctionDef)))
        return {**found, **{node.name: node.name for node in named}}

    @property
    def _globals(self) -> set[str]:
        top = {n.id for one in self._tree.body[:-1] for n in ast.walk(one) if _is_assigned(n)}
        told = (n for n in ast.walk(self._tree) if isinstance(n, ast.Global))
        return top.union(*(node.names for node in told))

    def holding(self, variable: str) -> str:
        """Return the text of the recipe, whose dictionary also tells one of its variables."""
        tree = ast.parse(self._text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and any(word.arg == "module" for word in node.keywords):
                told = ast.parse(f"lambda: {variable}", mode="eval").body
                node.keywords.append(ast.keyword("held", told))
        lines = ast.unparse(ast.fix_missing_locations(tree)).splitlines()
        return "\n".join(line for line in lines if line)

    def arguments(self, sizes: Sequence[Mapping[str, int]], *, only: bool) -> dict[str, Any]:
        """Return how a script gets the arguments of each call.

        Args:
            sizes: The sizes of each call, for a recipe that lists no calls of its own.
            only: Whether only the first call is made.
        """
        has_calls, has_kwargs = "calls" in self._fields, "kwargs" in self._fields
        is_alone = only and not {"before", "after"} & self._fields.keys()
        if has_calls:
            call = 'example["calls"][0]' if is_alone else "call"
            made = 'example["calls"][:1]' if only else 'example["calls"]'
            loop = "" if is_alone else f"n, call in enumerate({made}, 1)"
            args, kwargs = f'{call}.get("args", ())', f'{call}.get("kwargs", {{}})'
        else:
            named = ", ".join(f"{name}={size}" for name, size in sizes[0].items())
            loop = f"n, sizes in enumerate({[dict(each) for each in sizes]}, 1)"
            loop = "" if is_alone else loop if named else f"n in range(1, {len(sizes) + 1})"
            given = named if is_alone else "**sizes" if named else ""
            args, kwargs = (self._called(name, given) for name in ("inputs", "kwargs"))
        return {
            "loop": loop,
            "given": "args, kwargs" if has_kwargs else "args",
            "args": args,
            "kwargs": kwargs,
        }

    def _called(self, name: str, given: str) -> str:
        """Return an expression for the arguments, which a recipe may give as a function."""
        values, item = self._fields.get(name, []), f'example["{name}"]'
        if not values:
            return "()" if name == "inputs" else "{}"
        if all(isinstance(value, (ast.Tuple, ast.Dict)) for value in values):
            return item
        if all(self._is_function(value) or self._origins.returned(value) for value in values):
            return f"{item}({given})"
        return f"({item}({given}) if callable({item}) else {item})"

    def _are_fresh(self, tensors: Sequence[ast.expr]) -> bool:
        """Whether expressions make tensors, each in memory of its own."""
        names = [each.id for each in tensors if isinstance(each, ast.Name)]
        made = [self._origins.of(each) for each in tensors]
        return len({*names}) == len(names) and all(
            len(one) == 1 and _is_fresh_tensor(one[0]) for one in made
        )

    def _is_function(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Name) and value.id in self._functions

    def _makes_module(self, value: ast.expr) -> bool | None:
        match value:
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
                return True if name[0].isupper() else None
            case ast.Lambda() | ast.Attribute(value=ast.Name(id="torch")):
                return False
        return False if self._is_function(value) else None


def _kind_and_path(where: str) -> tuple[str, str]:
    kind, _, path = where.removeprefix("attribute class ").partition(" ")
    return ("class", kind) if where.startswith("attribute class ") else (kind, path)


def _is_assigned(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _imported_functions(tree: ast.AST) -> Iterator[str]:
    """Yield the names of the functions of ``torch.nn.functional`` that are imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "torch.nn.functional":
            yield from (alias.asname or alias.name for alias in node.names)


def _is_fresh_tensor(value: ast.expr) -> bool:
    """Whether an expression makes a tensor without gaps, in memory of its own."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name)):
            return name in _FACTORIES
        case ast.Call(func=ast.Attribute(value=inner, attr=name)):
            return name in _DENSE and _is_fresh_tensor(inner)
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return _is_fresh_tensor(left) or _is_fresh_tensor(right)
        case ast.UnaryOp(operand=inner):
            return _is_fresh_tensor(inner)
    return False


def _is_constant(value: ast.expr) -> bool:
    """Whether an expression makes a dictionary that holds no tensor."""
    return isinstance(value, ast.Dict) and all(isinstance(v, ast.Constant) for v in value.values)
