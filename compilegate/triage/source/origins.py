"""Where values of a recipe come from: arguments of helper functions, and what these return."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

_Scope: TypeAlias = ast.FunctionDef | ast.Lambda
#: How many helpers may call each other.
_DEPTH = 6


class Origins:
    """Follows the names of a script to the expressions that they stand for.

    Args:
        tree: The script.
    """

    def __init__(self, tree: ast.AST) -> None:
        nodes = [*ast.walk(tree)]  # what encloses a node comes before it
        self._functions = {n.name: n for n in nodes if isinstance(n, ast.FunctionDef)}
        self._calls = [n for n in nodes if isinstance(n, ast.Call)]
        self._scopes: dict[ast.AST, _Scope] = {}
        for scope in nodes:
            if isinstance(scope, (ast.FunctionDef, ast.Lambda)):
                self._scopes |= dict.fromkeys(ast.walk(scope), scope)

    def of(self, value: ast.expr, depth: int = _DEPTH) -> list[ast.expr]:
        """Return the expressions that a value stands for; itself, where that is not seen.

        A parameter stands for the arguments of each call, a local variable for what it is assigned.
        """
        scope = self._scopes.get(value)
        if not isinstance(value, ast.Name) or scope is None or not depth:
            return [value]
        given = [*self._assigned(scope, value.id)] or [*self._given(scope, value.id)]
        return [found for each in given for found in self.of(each, depth - 1)] or [value]

    def returned(self, function: ast.expr, depth: int = _DEPTH) -> list[ast.expr]:
        """Return the expressions that calls of a function return; none, where that is not seen."""
        match function:
            case ast.Lambda(body=body):
                return [body]
            case ast.Name(id=name) if name in self._functions:
                return [*self._results(self._functions[name])]
            case ast.Call(func=maker) if depth:
                made = self.returned(maker, depth - 1)
                return [found for each in made for found in self.returned(each, depth - 1)]
        return []

    def _results(self, function: ast.FunctionDef) -> Iterator[ast.expr]:
        for node, scope in self._scopes.items():
            if scope is function and isinstance(node, ast.Return) and node.value is not None:
                yield node.value

    def _assigned(self, scope: _Scope, name: str) -> Iterator[ast.expr]:
        """Yield what a local variable is assigned, if that is done once."""
        stores = [
            node
            for node, inside in self._scopes.items()
            if inside is scope and isinstance(node, ast.Name) and node.id == name
            if isinstance(node.ctx, ast.Store)
        ]
        for node, inside in self._scopes.items():
            if inside is scope and isinstance(node, ast.Assign) and node.targets == stores:
                yield node.value

    def _given(self, scope: _Scope, name: str) -> Iterator[ast.expr]:
        """Yield what each call gives for a parameter of a function."""
        if not isinstance(scope, ast.FunctionDef):
            return
        names = [each.arg for each in scope.args.args]
        if name not in names:
            return
        place, defaults = names.index(name), scope.args.defaults
        from_end = place - len(names)
        default = defaults[from_end:][:1] if -from_end <= len(defaults) else []
        for call in self._calls:
            if isinstance(call.func, ast.Name) and call.func.id == scope.name:
                words = [word.value for word in call.keywords if word.arg == name]
                has_stars = any(isinstance(each, ast.Starred) for each in call.args)
                has_stars |= any(word.arg is None for word in call.keywords)
                yield from words or ([call] if has_stars else call.args[place:][:1] or default)
