"""The texts that code has written down, without secrets: the code still runs.

A text is a secret if it looks like one, whatever the parts of which it is put together, or if the
name says so that it is given: of a variable, an attribute, an argument or a key.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from compilegate.records.variables import HIDDEN
from compilegate.triage.report.secrets_in_text import COMPUTED, without_named

#: A name that says that a text is secret. That of a *tokenizer*, or of a type of token, does not.
_NAME = re.compile(
    r"(?i)(?:^|[_\W]|(?<=[a-z])(?=[A-Z]))(?:(?:token|secret|password|passwd|passphrase|credential)s?"
    r"|pwd|authorization|auth|(?:api|secret|access|private|signing|account|auth)[_-]?keys?)"
    r"(?:[_-]?(?:\d+|key|value|text|str|default))?$"
)
_SECRET_WORD = re.compile(r"(?i)secret|passw(?:or)?d|passphrase|credential|api_?key")
#: A name that often has words of a language: only one text, and none like ``<pad>``, is a secret.
_OF_WORDS = re.compile(r"(?i)tokens?$")
_MARK = re.compile(r"[<\[].*[>\]]|\W?")
#: What makes one text of another.
_MAKERS = ("str", "bytes", "bytearray", "SecretStr", "b64decode", "fromhex", "unhexlify")

_Text = str | bytes


@dataclass(frozen=True)
class Cleaned:
    """Code without secrets.

    Attributes:
        code: The code. Its names and numbers all stay.
        secrets: What was taken out.
    """

    code: str
    secrets: frozenset[str]


def cleaned(source: str) -> Cleaned:
    """Return code without secrets.

    Raises:
        SyntaxError: This is no code.
    """
    tree = ast.parse(source)
    cleaner = _Cleaner(source, {id(node) for node in _named(tree)})
    cleaner.visit(tree)
    lines = [f"{line}\n".encode() for line in source.split("\n")]
    starts = [0, *itertools.accumulate(map(len, lines))]
    whole = b"".join(lines)[:-1]
    comments = [
        edit
        for edit in _comments(source)
        if not any(own.begin <= edit.begin < own.end for own in cleaner.edits)
    ]
    for edit in sorted((*cleaner.edits, *comments), reverse=True):
        begin, end = (starts[row - 1] + column for row, column in (edit.begin, edit.end))
        whole = whole[:begin] + edit.text.encode() + whole[end:]
    return Cleaned(whole.decode(), frozenset(cleaner.found))


class _Edit(NamedTuple):
    """What to write in the place of a text: lines from 1 on, and bytes of a line."""

    begin: tuple[int, int]
    end: tuple[int, int]
    text: str


def _comments(source: str) -> Iterator[_Edit]:
    lines = source.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and (new := without_named(token.string)) != token.string:
            row, column = token.start
            before = len(lines[row - 1][:column].encode())
            yield _Edit((row, before), (row, before + len(token.string.encode())), new)


def _named(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield each text whose name says that it is secret."""
    for node in ast.walk(tree):
        for name, value in _pairs(node):
            if _NAME.search(name) or _SECRET_WORD.search(name):
                yield from _texts(value, name)


def _pairs(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a node gives to values."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _assigned(target, value)
        case ast.AnnAssign(value=ast.expr() as value) | ast.AugAssign(value=value):
            yield from _assigned(node.target, value)
        case ast.NamedExpr(target=target, value=value):
            yield target.id, value
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            yield from ((_name_of(left), right), (_name_of(right), left))
        case ast.arguments() | ast.FunctionDef():
            yield from _defined(node)
        case _:
            yield from _given(node)


def _defined(node: ast.arguments | ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the defaults of a function, or what it returns."""
    if isinstance(node, ast.FunctionDef):
        for one in node.body:
            if isinstance(one, ast.Return) and one.value is not None:
                yield node.name, one.value
        return
    positional = [*node.posonlyargs, *node.args][-len(node.defaults) :]
    named = [*zip(positional, node.defaults, strict=False)]
    for argument, default in (*named, *zip(node.kwonlyargs, node.kw_defaults, strict=True)):
        if default is not None:
            yield argument.arg, default


def _given(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield what is given to a call, or kept under a key."""
    match node:
        case ast.keyword(arg=str(name), value=value):
            yield name, value
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                yield (_name_of(key) if key else ""), value
        case ast.Call(args=arguments):  # ``setdefault("API_KEY", "…")``
            for before, value in itertools.pairwise(arguments):
                yield _word(before), value
        case ast.Tuple(elts=[first, second]) if not _OF_WORDS.search(_word(first)):
            yield _word(first), second


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if not isinstance(target, ast.Tuple | ast.List):
        yield _name_of(target), value
    elif isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        for one, own in zip(target.elts, value.elts, strict=True):
            yield from _assigned(one, own)
    else:
        names = map(_name_of, target.elts)
        yield next((name for name in names if _NAME.search(name)), ""), value


def _word(node: ast.expr) -> str:
    text = node.value if isinstance(node, ast.Constant) else ""
    return text if isinstance(text, str) and re.fullmatch(r"[\w.-]+", text) else ""


def _name_of(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return _name_of(value)
    return _word(node)


def _texts(value: ast.expr, name: str) -> Iterator[ast.expr]:
    """Yield the texts that are a value, or part of it, as far as they are secret."""
    is_of_words = bool(_OF_WORDS.search(name))
    if _is_text(value):
        if not (is_of_words and isinstance(value, ast.Constant) and _is_mark(value)):
            yield value
        return
    parts: list[ast.expr] = []
    match value:
        case ast.IfExp(body=body, orelse=other):
            parts = [body, other]
        case ast.BoolOp(values=parts):
            pass
        case ast.NamedExpr(value=one) | ast.BinOp(left=one) | ast.Starred(value=one):
            parts = [one]
        case ast.Call(func=ast.Attribute(value=one)) if _is_text(one):
            parts = [one]
        case ast.Call(func=ast.Name(id=maker) | ast.Attribute(attr=maker)) if maker in _MAKERS:
            parts = value.args
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            parts = [] if is_of_words else parts
        case ast.Dict(values=parts):
            parts = [] if is_of_words else parts
    for part in parts:
        yield from _texts(part, name)


def _is_mark(node: ast.Constant) -> bool:
    return isinstance(node.value, str) and _MARK.fullmatch(node.value) is not None


def _is_text(node: ast.expr) -> bool:
    """Whether this is a text that is written down, as a whole or in part."""
    match node:
        case ast.Constant(value=str() | bytes()) | ast.JoinedStr():
            return True
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _is_text(left) or _is_text(right)
        case ast.Call(func=ast.Attribute(value=one, attr="join"), args=[ast.List() | ast.Tuple()]):
            elements = getattr(node.args[0], "elts", ())
            is_starred = any(isinstance(each, ast.Starred) for each in elements)
            return isinstance(one, ast.Constant) and bool(elements) and not is_starred
    return False


class _Cleaner(ast.NodeTransformer):
    """Finds what to write in the place of texts that hold secrets.

    Attributes:
        edits: What is written in their place.
        found: The secrets.
    """

    def __init__(self, source: str, secret: set[int]) -> None:
        self.edits: list[_Edit] = []
        self.found: set[str] = set()
        self._source, self._secret = source, secret
        self._is_inside = self._is_changed = False

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the node, or a text without secrets in its place."""
        if not isinstance(node, ast.expr) or not _is_text(node):
            super().generic_visit(node)
            return node
        if self._is_inside:
            return self._cleaned(node)
        self._is_inside, self._is_changed = True, False
        before = ast.get_source_segment(self._source, node) or ""
        new = self._cleaned(node)
        self._is_inside = False
        if self._is_changed and node.end_lineno is not None and node.end_col_offset is not None:
            end = node.end_lineno, node.end_col_offset
            begin = node.lineno, node.col_offset
            self.edits.append(_Edit(begin, end, _written(new, before)))
        return new

    def _cleaned(self, node: ast.expr) -> ast.expr:
        parts = [*_parts(node)]
        for at, part in enumerate(parts):
            if isinstance(part, ast.AST):
                parts[at] = self.visit(part)
        is_secret = id(node) in self._secret
        if any(isinstance(part, bytes) for part in parts):
            return self._of_bytes(node, parts, is_secret=is_secret)
        text = "".join(part if isinstance(part, str) else COMPUTED for part in parts)
        own = text.split(COMPUTED)
        computed = [part for part in parts if isinstance(part, ast.expr)]
        shown = [_hidden(one) for one in own] if is_secret else without_named(text).split(COMPUTED)
        if shown == own:
            return node
        if len(own) != len(computed) + 1 or len(shown) != len(own):  # it has that character
            shown, computed = [HIDDEN], []
        self._note(COMPUTED.join(own), COMPUTED.join(shown))
        if not computed:
            return ast.Constant(shown[0])
        values: list[ast.expr] = [ast.Constant(shown[0])]
        for one, after in zip(computed, shown[1:], strict=True):
            is_format = isinstance(one, ast.FormattedValue)
            values += [one if is_format else ast.FormattedValue(one, -1), ast.Constant(after)]
        return ast.JoinedStr([v for v in values if getattr(v, "value", None) != ""])

    def _of_bytes(
        self, node: ast.expr, parts: list[_Text | ast.AST], *, is_secret: bool
    ) -> ast.expr:
        text = b"".join(part for part in parts if isinstance(part, bytes)).decode("latin-1")
        shown = _hidden(text) if is_secret else without_named(text)
        if shown == text:
            return node
        self._note(text, shown)
        return ast.Constant(shown.encode("latin-1"))

    def _note(self, before: str, after: str) -> None:
        """Note what was taken out of a text."""
        self._is_changed = True
        pattern = "(.+?)".join(map(re.escape, after.split(HIDDEN)))
        if found := re.fullmatch(pattern, before, re.DOTALL):
            self.found.update(found.groups())


def _parts(node: ast.expr) -> Iterator[_Text | ast.AST]:
    """Yield the texts of which a text is made, and what it computes between them."""
    match node:
        case ast.Constant(value=str() | bytes() as text):
            yield text
        case ast.JoinedStr(values=values):
            for value in values:
                yield from _parts(value)
        case ast.BinOp(op=ast.Add(), left=left, right=right) if _is_text(node):
            yield from _parts(left)
            yield from _parts(right)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=between)), args=[one]) if (
            _is_text(node)
        ):
            for at, value in enumerate(getattr(one, "elts", ())):
                if at and isinstance(between, str | bytes):
                    yield between
                yield from _parts(value)
        case _:
            yield node


def _hidden(text: str) -> str:
    """Return what is written for a secret. A part of few characters tells nothing."""
    is_plain = not text.strip() or HIDDEN in text or re.fullmatch(r"(?i)\W*|bearer |basic ", text)
    return text if is_plain else HIDDEN


def _written(node: ast.expr, before: str) -> str:
    """Return the source of a text, in as many lines as it has before if that is possible."""
    if isinstance(node, ast.Constant):
        lines = str(node.value).replace("\\", "\\\\").replace('"""', '\\"""')
        for code in (without_named(before), f'"""{lines}"""' if before.count("\n") else ""):
            try:
                if ast.literal_eval(code) == node.value:
                    return code
            except (SyntaxError, ValueError):
                continue
    try:
        return ast.unparse(node)
    except ValueError:  # an f-string of Python 3.11 cannot hold every expression
        return repr(HIDDEN)
