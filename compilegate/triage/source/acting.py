"""Which code of a team changes PyTorch: registers for its compilers, sets their options."""

from __future__ import annotations

import ast

from compilegate.triage.source.definitions import Gathered, Source
from compilegate.triage.source.members import imports_in, modules_of
from compilegate.triage.source.resolving import resolved
from compilegate.triage.source.syntax import defines, dotted, named_operators, text_of, uses

#: The namespaces of PyTorch's own operators: what a team registers for them changes any model.
_OF_TORCH = {"aten", "prims"}
#: The parts of PyTorch that compile.
COMPILERS = ("torch._inductor", "torch._dynamo", "torch._functorch", "torch._decomp", "torch.fx")


def set_up_in(source: Source, recipe: ast.FunctionDef) -> ast.FunctionDef | None:
    """Return the part of a recipe that changes PyTorch, as a function; None if there is none.

    Args:
        source: The zoo file.
        recipe: The recipe.
    """
    kept: list[ast.stmt] = []
    wanted: set[str] = set()
    for node in reversed(recipe.body):
        names = {*defines(node)}
        is_import = isinstance(node, (ast.Import, ast.ImportFrom))
        is_due = not isinstance(node, ast.Return) and acts(source, node, recipe)
        if is_due or not wanted.isdisjoint(names):
            kept.insert(0, node)
            wanted |= set() if is_import else {*uses(node)}
    if not any(acts(source, node, recipe) for node in kept):
        return None
    made = ast.parse("def set_up(): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.args, made.body = recipe.args, kept
    return made


def acts(
    source: Source,
    node: ast.AST,
    within: ast.AST,
    seen: set[int] | None = None,
    *,
    is_any: bool = False,
) -> bool:
    """Whether code changes PyTorch, perhaps by functions of the team that it calls.

    Args:
        source: The file that has it.
        node: The code.
        within: The function that has it, which may import what it names.
        seen: The functions that were looked at.
        is_any: Whether operators count that were not taken, too.
    """
    inside = modules_of(imports_in(within), "")
    is_called = seen is not None
    modules, seen = imports_of(source) | inside, seen if seen is not None else set()
    if is_called and isinstance(node, ast.FunctionDef):
        # A function that is called imports them now.
        others = map(source.gathered.module, dict.fromkeys(inside.values()))
        if any(has_effects(other, seen) for other in others if other is not None):
            return True
    for each in ast.walk(node):
        decorators = each.decorator_list if isinstance(each, ast.FunctionDef) else []
        targets = each.targets if isinstance(each, ast.Assign) else []
        targets = [each.target] if isinstance(each, ast.AugAssign) else targets
        if any(
            isinstance(one, (ast.Attribute, ast.Subscript))
            and _is_of_torch(dotted(_of_items(one), modules))
            and (is_any or is_due(source.gathered, one))
            for one in targets
        ):
            return True
        called = [each.func] if isinstance(each, ast.Call) else []
        called += [one for one in decorators if not isinstance(one, ast.Call)]
        for one in called:
            if is_registration(dotted(one, modules)) and (is_any or is_due(source.gathered, each)):
                return True
            found = resolved(source, one, inside)
            if found is None or id(found[1]) in seen:
                continue
            seen.add(id(found[1]))
            is_code = isinstance(found[1], (ast.FunctionDef, ast.ClassDef))
            if is_code and acts(*found, found[1], seen, is_any=is_any):
                return True
    return False


def has_operator(node: ast.stmt) -> bool:
    """Whether a statement registers an operator, or something for one."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    is_made = isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
    text = text_of(node.value) if isinstance(node, ast.Assign) and is_made else ""
    return any(map(named_operators, decorators)) or "Library(" in text or "::" in text


def has_effects(source: Source, seen: set[int] | None = None) -> bool:
    """Whether a module does anything to PyTorch at its top level, also for other operators.

    Args:
        source: The module.
        seen: The functions and modules that were looked at.
    """
    seen = seen if seen is not None else set()
    if id(source) in seen:
        return False
    seen.add(id(source))
    return any(
        not isinstance(node, (ast.Import, ast.ImportFrom))
        and (has_operator(node) or acts(source, node, node, seen, is_any=True))
        for node in source.body
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.decorator_list
    )


def is_due(gathered: Gathered, node: ast.AST) -> bool:
    """Whether code is about no operator, one of PyTorch, or one that was taken."""
    named = named_operators(node)
    is_of_torch = any(name.partition(":")[0] in _OF_TORCH for name in named)
    return not named or is_of_torch or not gathered.operators().isdisjoint(named)


def imports_of(source: Source) -> dict[str, str]:
    """Return what each name is that a file imports."""
    return modules_of(source.body, source.package)


def is_torch(source: Source, node: ast.expr) -> bool:
    """Whether an expression is an attribute of PyTorch: an option of the compiler."""
    return isinstance(node, ast.Attribute) and _is_of_torch(dotted(node, imports_of(source)))


def _is_of_torch(path: str) -> bool:
    return path.startswith("torch.")


def is_registration(path: str, places: tuple[str, ...] = (*COMPILERS, "torch.library")) -> bool:
    """Whether a function registers something with the compiler, or defines an operator."""
    name = path.rpartition(".")[2]
    return path.startswith(places) and ("library" in path or name.startswith("register"))


def _of_items(node: ast.expr) -> ast.expr:
    """Return the dictionary of an item."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node
