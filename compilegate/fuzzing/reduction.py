"""Reduces a failing program: fewer statements, inputs instead of computations, smaller sizes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from compilegate.fuzzing.program import Program, Statement, Value, renamed

#: Returns the first of some candidates that fails as the program does; None if none does until a
#: time on the monotonic clock.
FirstFailing = Callable[[Sequence[Program], float], Program | None]
#: A tensor with strides of its own: its sizes and its strides.
_STRIDED = re.compile(r"torch\.empty_strided\((\([\d, ]+\)), (\([\d, ]+\))")
#: The largest size that numbers close below it are tried for: there would be many.
_MANY = 32
#: How many candidates a child is given at once.
_BLOCK = 6


class Reducer:
    """Applies simplifications as long as the program still fails.

    Args:
        first_failing: Finds the first candidate that fails.
        seconds: When to end.
    """

    def __init__(self, first_failing: FirstFailing, seconds: float) -> None:
        self._first_failing = first_failing
        self._until = time.monotonic() + seconds
        self._tried: set[Program] = set()
        self.best: Program | None = None

    def reduce(self, program: Program) -> Program:
        """Return the smallest program found that fails in the same way."""
        self.best = program
        passes = (
            *(fewer_settings, fewer_returns, fewer_statements, inputs_instead, bypassed),
            *(fewer_values, plainer, smaller, simpler_dtypes),
        )
        before = None
        while before != self.best and time.monotonic() < self._until:
            before = self.best
            for candidates in passes:
                self._exhaust(candidates)
        return self.best

    def _exhaust(self, candidates: Callable[[Program], Iterator[Program]]) -> None:
        """Apply one kind of simplification until none of its candidates fails any more."""
        found: Program | None = self.best
        while found is not None and time.monotonic() < self._until:
            assert self.best is not None
            new = [c.pruned() for c in candidates(self.best)]
            new = [c for c in dict.fromkeys(new) if c.is_closed() and c not in self._tried]
            found = None
            while new and found is None and time.monotonic() < self._until:
                block, new = new[:_BLOCK], new[_BLOCK:]
                self._tried.update(block)
                found = self._first_failing(block, self._until)
            self.best = found or self.best


def fewer_settings(program: Program) -> Iterator[Program]:
    """Yield the program with one size, without gradients, with static sizes."""
    if program.varies:
        yield replace(program, varies=False, dynamic="static")
    if program.phase == "train":
        yield replace(program, phase="infer")
    if program.dynamic not in ("static", "auto"):
        yield replace(program, dynamic="auto")


def fewer_returns(program: Program) -> Iterator[Program]:
    """Yield the program with one of its results, and without one of them."""
    if len(program.returns) > 1:
        for name in program.returns:
            yield replace(program, returns=(name,))
        for name in program.returns:
            yield replace(program, returns=tuple(n for n in program.returns if n != name))
    writes = tuple(n for one in program.statements for n in one.writes)
    for name in dict.fromkeys(writes):
        if program.returns != (name,):
            yield replace(program, returns=(name,))


def fewer_statements(program: Program) -> Iterator[Program]:
    """Yield the program without a run of statements, and without what depends on them."""
    count = len(program.statements)
    width = count
    while width:
        for start in range(count - width, -1, -max(width // 2, 1)):
            yield _without(program, range(start, start + width))
        width //= 2


def _without(program: Program, left_out: range) -> Program:
    gone: set[str] = set()
    kept: list[Statement] = []
    for index, one in enumerate(program.statements):
        if index in left_out or gone & {*one.reads, *one.writes}:
            gone |= {*one.makes}
        else:
            kept.append(one)
    returns = tuple(name for name in program.returns if name not in gone)
    if not returns:
        lost = [one for i, one in enumerate(program.statements) if i in left_out]
        known = {value.name for value in program.values} | {n for one in kept for n in one.makes}
        returns = tuple(name for one in lost for name in one.reads if name in known)[-1:]
    return replace(program, statements=tuple(kept), returns=returns)


def inputs_instead(program: Program) -> Iterator[Program]:
    """Yield the program with inputs in place of what its beginning or a statement computes."""
    count = len(program.statements)
    for end in sorted({count * part // 4 for part in (1, 2, 3)} - {0, 1, count}, reverse=True):
        yield from _begun_at(program, end)
    for index in reversed(range(len(program.statements))):
        one = program.statements[index]
        if one.input_text and len(one.makes) == 1 and one.makes[0] not in program.returns:
            dims = one.dims if program.varies else ()
            value = Value(name=one.makes[0], text=one.input_text, dims=dims)
            rest = (*program.statements[:index], *program.statements[index + 1 :])
            yield replace(program, statements=rest, values=(*program.values, value))


def _begun_at(program: Program, end: int) -> Iterator[Program]:
    """Yield the program with inputs in place of its first statements, if inputs may stand in."""
    first, rest = program.statements[:end], program.statements[end:]
    needed = {name for one in rest for name in (*one.reads, *one.writes)} | {*program.returns}
    made = [one for one in first if needed.intersection(one.makes)]
    if all(one.input_text and len(one.makes) == 1 for one in made):
        values = [
            Value(name=one.makes[0], text=one.input_text, dims=one.dims if program.varies else ())
            for one in made
        ]
        yield replace(program, statements=rest, values=(*program.values, *values))


def bypassed(program: Program) -> Iterator[Program]:
    """Yield the program in which a variable of the same shape stands in for another one."""
    for index in reversed(range(len(program.statements))):
        one = program.statements[index]
        for other in one.alike:
            names = {one.makes[0]: other} if one.makes else {}
            rest = (*program.statements[:index], *program.statements[index + 1 :])
            yield replace(
                program,
                statements=tuple(_renamed(each, names) for each in rest),
                returns=tuple(dict.fromkeys(names.get(n, n) for n in program.returns)),
            )


def _renamed(one: Statement, names: dict[str, str]) -> Statement:
    return replace(
        one,
        text=renamed(one.text, names),
        reads=tuple(dict.fromkeys(names.get(n, n) for n in one.reads)),
        writes=tuple(dict.fromkeys(names.get(n, n) for n in one.writes)),
    )


def fewer_values(program: Program) -> Iterator[Program]:
    """Yield the program with an input in place of a parameter or a buffer."""
    for value in program.held:
        changed = replace(value, kind="input")
        rest = tuple(changed if each is value else each for each in program.values)
        yield replace(program, values=rest)


def plainer(program: Program) -> Iterator[Program]:
    """Yield the program with a contiguous input in place of another one."""
    for value in program.inputs:
        if value.plain:
            changed = replace(value, text=value.plain, plain="")
            rest = tuple(changed if each is value else each for each in program.values)
            yield replace(program, values=rest)


def smaller(program: Program) -> Iterator[Program]:
    """Yield the program with a smaller number in place of a size, wherever it occurs."""
    texts = [value.text for value in program.values]
    numbers = {int(n) for text in texts for n in re.findall(r"(?<![\w.])\d+\b(?!\.)", text)}
    largest = sorted(numbers, reverse=True)
    coarse = [(n, less) for n in largest for less in (2, 3, n // 2) if 1 < less < n]
    # Two sizes that become one number cannot be reduced apart.
    fine = [(n, less) for n in largest for less in _just_below(n) if less not in numbers]
    for number, less in coarse + fine:
        yield _substituted(program, rf"(?<![\w.]){number}\b(?!\.)", str(less))


def _just_below(number: int) -> Iterator[int]:
    """Yield some numbers between a size and its half.

    Of one element, even a wrong formula may be right, so 1 follows 2 alone.
    """
    step = max(number // 4, 1) if number > 1 else 0
    while step > 0:
        yield number - step
        step = step // 2 if number <= _MANY else 0


def simpler_dtypes(program: Program) -> Iterator[Program]:
    """Yield the program with a common dtype in place of a rare one."""
    text = " ".join([*(v.text for v in program.values), *(s.text for s in program.statements)])
    for rare, common in (
        ("torch.float64", "torch.float32"),
        ("torch.float16", "torch.float32"),
        ("torch.bfloat16", "torch.float32"),
        ("torch.int8", "torch.int64"),
        ("torch.uint8", "torch.int64"),
        ("torch.int16", "torch.int64"),
        ("torch.int32", "torch.int64"),
    ):
        if rare in text:
            yield _substituted(program, rf"{re.escape(rare)}\b", common)
    if ".to(torch.float32)" in text:
        yield _substituted(program, r"\.to\(torch\.float32\)", "")


def _substituted(program: Program, pattern: str, new: str) -> Program:
    return replace(
        program,
        values=tuple(
            replace(
                value,
                text=_strided_alike(value.text, re.sub(pattern, new, value.text)),
                plain=re.sub(pattern, new, value.plain),
            )
            for value in program.values
        ),
        statements=tuple(
            replace(
                one,
                text=re.sub(pattern, new, one.text),
                input_text=re.sub(pattern, new, one.input_text),
            )
            for one in program.statements
        ),
    )


def _strided_alike(before: str, after: str) -> str:
    """Return a text in which strides fit its sizes: the elements of no tensor begin to overlap.

    Args:
        before: The text with the strides as they were.
        after: The same with other sizes.
    """
    known = iter(_STRIDED.findall(before))

    def fitting(found: re.Match[str]) -> str:
        (sizes, strides), changed = map(_numbers, next(known)), _numbers(found[1])
        order = sorted(range(len(sizes)), key=lambda dim: (strides[dim], dim))
        if _dense(sizes, order) != strides:
            return found[0]
        return f"torch.empty_strided({changed}, {_dense(changed, order)}"

    return _STRIDED.sub(fitting, after)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def _dense(sizes: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Return strides without gaps; the dimensions follow from the innermost to the outermost."""
    strides, step = [0] * len(sizes), 1
    for dim in order:
        strides[dim], step = step, step * sizes[dim]
    return tuple(strides)
