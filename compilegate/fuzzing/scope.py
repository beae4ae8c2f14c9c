"""The variables of a program that is being written: their shapes and dtypes, without torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from compilegate.fuzzing.program import SIZES, Statement, Value

#: A size for each size of ``n``. All are equal in a dimension that does not vary.
Size = tuple[int, ...]
Shape = tuple[Size, ...]

FLOATS = ("float32", "float64", "bfloat16", "float16")
HALVES = ("bfloat16", "float16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
_RANK = {
    name: rank
    for rank, name in enumerate(
        ("bool", "uint8", "int8", "int16", "int32", "int64", "bfloat16", "float16", "float32")
    )
} | {"float64": 9}
#: Tensors have at most this many elements, and dimensions.
LARGEST, MOST_DIMS = 4096, 5
#: Sizes of dimensions that do not vary: below and above a vector register, even and odd.
_CONSTANTS = (1, 2, 3, 3, 5, 7, 8, 8, 16, 17, 33)


def constant(size: int) -> Size:
    """Return a size that does not vary."""
    return (size,) * len(SIZES)


def promoted(one: str, other: str) -> str:
    """Return the dtype of an operation on two tensors with dimensions."""
    if {one, other} == set(HALVES):
        return "float32"
    if {one, other} == {"uint8", "int8"}:
        return "int16"
    return max(one, other, key=_RANK.__getitem__)


@dataclass(frozen=True)
class Variable:
    """A tensor of the program.

    Attributes:
        name: Its name.
        shape: Its shape.
        dtype: Its dtype, such as ``float32``.
        rough: Whether it was computed in half precision. What jumps must not depend on it: compiled
            code may leave out roundings.
        overlaps: Whether several elements may share memory.
        root: The value or variable whose memory it may share; empty if it is none other's.
        differentiable: Whether writing to it may be forbidden, because it needs gradients.
    """

    name: str
    shape: Shape
    dtype: str
    rough: bool = False
    overlaps: bool = False
    root: str = ""
    differentiable: bool = False

    @property
    def numel(self) -> int:
        """The number of elements, at the size with the most."""
        return max(math.prod(sizes) for sizes in zip(*self.shape, strict=True)) if self.shape else 1

    @property
    def is_float(self) -> bool:
        """Whether it is floating."""
        return self.dtype in FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether it holds integers."""
        return self.dtype in INTEGERS

    @property
    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


class Scope:
    """Writes the statements of a program.

    Args:
        rng: Decides everything that is random.
        varies: Whether a dimension of some inputs varies.
        trains: Whether gradients are judged.

    Attributes:
        rng: As given.
        trains: As given.
        values: The inputs, parameters and buffers so far.
        statements: The statements so far.
        variables: Every tensor so far.
    """

    def __init__(self, rng: Random, *, varies: bool, trains: bool) -> None:
        self.rng, self.varies, self.trains = rng, varies, trains
        self.values: list[Value] = []
        self.statements: list[Statement] = []
        self.variables: list[Variable] = []

    # Choosing

    def chance(self, share: float) -> bool:
        """Return True in this share of cases."""
        return self.rng.random() < share

    def size(self) -> Size:
        """Return a size that does not vary."""
        return constant(self.rng.choice(_CONSTANTS))

    def pick(self, suits: Callable[[Variable], bool] = lambda found: True) -> Variable | None:
        """Return a variable that suits, a recent one more often; None if none does."""
        found = [one for one in self.variables if suits(one)]
        if not found:
            return None
        weights = [1.0 + 2.0 * index / len(found) for index in range(len(found))]
        return self.rng.choices(found, weights)[0]

    def floating(self, *, least: int = 0, most: int = MOST_DIMS) -> Variable | None:
        """Return a floating variable with this many dimensions."""
        return self.pick(lambda one: one.is_float and least <= one.dim <= most)

    def exact(self, *, least: int = 0) -> Variable | None:
        """Return a floating variable in single or double precision throughout."""
        return self.pick(lambda one: one.is_float and not one.rough and one.dim >= least)

    def dimension(self, of: Variable, *, constant_only: bool = False) -> int | None:
        """Return the index of a random dimension of a variable; None if none suits."""
        found = [
            index for index in range(of.dim) if not constant_only or len(set(of.shape[index])) == 1
        ]
        return self.rng.choice(found) if found else None

    def signed(self, dim: int, of: Variable) -> int:
        """Return a dimension, for a third of cases counted from the end."""
        return dim - of.dim if self.chance(1 / 3) else dim

    def text_of(self, size: Size) -> str | None:
        """Return an expression for a size; None if no variable has it."""
        if len(set(size)) == 1:
            return str(size[0])
        for one in reversed(self.variables):
            if size in one.shape:
                return f"{one.name}.shape[{one.shape.index(size)}]"
        return None

    def text_of_shape(self, shape: Shape) -> str | None:
        """Return the text of a shape, ``(n, 3)``; None if a size has no expression."""
        texts = [self.text_of(size) for size in shape]
        if any(text is None for text in texts):
            return None
        return "(" + ", ".join(map(str, texts)) + ("," if len(texts) == 1 else "") + ")"

    # Writing

    def name(self) -> str:
        """Return a fresh name."""
        return f"v{sum(len(one.makes) for one in self.statements)}"

    def make(
        self,
        operator: str,
        text: str,
        reads: Sequence[Variable],
        shape: Shape,
        dtype: str,
        *,
        view_of: Variable | None = None,
        rough: bool | None = None,
        overlaps: bool = False,
        needs: tuple[str, ...] = (),
        whole: bool = False,
    ) -> Variable | None:
        """Write a statement that makes a variable.

        Args:
            operator: The name of the operator.
            text: The expression, or with ``whole`` a statement in which ``{}`` is the name.
            reads: What it uses.
            shape: The shape of the result.
            dtype: Its dtype.
            view_of: What it shares memory with.
            rough: Whether it is rough. By default, if anything that it reads is.
            overlaps: Whether its elements may share memory.
            needs: Definitions that it needs.
            whole: Whether the text is a whole statement.

        Returns:
            The variable; None if it would be too large.
        """
        name = self.name()
        rough = any(one.rough for one in reads) if rough is None else rough
        floating = dtype in FLOATS
        made = Variable(
            name,
            shape,
            dtype,
            rough=floating and (rough or dtype in HALVES),
            overlaps=overlaps or (view_of is not None and view_of.overlaps),
            root=(view_of.root or view_of.name) if view_of is not None else "",
            differentiable=floating and any(one.differentiable for one in reads),
        )
        if made.numel > LARGEST or made.dim > MOST_DIMS:
            return None
        alike = tuple(
            one.name for one in self.variables if (one.shape, one.dtype) == (shape, dtype)
        )
        input_text, dims = _input(made)
        self.statements.append(
            Statement(
                text=text.replace("{}", name) if whole else f"{name} = {text}",
                makes=(name,),
                reads=tuple(dict.fromkeys(one.name for one in reads)),
                operator=operator,
                needs=needs,
                alike=alike,
                input_text=input_text,
                dims=dims,
            )
        )
        self.variables.append(made)
        return made

    def write(
        self, operator: str, text: str, target: Variable, reads: Sequence[Variable] = ()
    ) -> None:
        """Write a statement that changes a variable in place."""
        self.statements.append(
            Statement(
                text=text,
                reads=tuple(dict.fromkeys(one.name for one in (target, *reads))),
                writes=(target.name,),
                operator=operator,
            )
        )
        if any(one.rough for one in reads):
            family = {target.name, target.root or target.name}
            self.variables = [
                replace(one, rough=one.is_float) if {one.name, one.root} & family else one
                for one in self.variables
            ]

    def add_value(self, value: Value, variable: Variable) -> Variable:
        """Add an input, a parameter or a buffer."""
        self.values.append(value)
        self.variables.append(variable)
        return variable

    def parameter(self, *shape: Size, scale: float | None = None) -> Variable | None:
        """Add a parameter; None if a size varies."""
        if any(len(set(size)) > 1 for size in shape):
            return None
        sizes = ", ".join(str(size[0]) for size in shape)
        fan = math.prod(size[0] for size in shape[1:]) or 1
        scale = round(fan**-0.5, 3) if scale is None else scale
        name = f"w{sum(value.kind == 'parameter' for value in self.values)}"
        value = Value(name=name, text=f"torch.randn({sizes}) * {scale}", kind="parameter")
        made = Variable(name, shape, "float32", differentiable=self.trains)
        return self.add_value(value, made)


def _input(of: Variable) -> tuple[str, tuple[int, ...]]:
    """Return an expression that makes an input like a variable, and the dimensions that vary."""
    varying = tuple(i for i, size in enumerate(of.shape) if len(set(size)) > 1)
    if any(of.shape[i] != SIZES for i in varying):
        return "", ()
    sizes = [("n" if i in varying else str(size[0])) for i, size in enumerate(of.shape)]
    return expression(of.dtype, sizes), varying


def expression(dtype: str, sizes: Sequence[str]) -> str:
    """Return an expression that makes a tensor of random numbers."""
    shape = ", ".join(sizes) + ("," if len(sizes) == 1 else "")
    if dtype == "bool":
        return f"torch.rand({shape or '()'}) > 0.5"
    if dtype in INTEGERS:
        low = 0 if dtype == "uint8" else -9
        return f"torch.randint({low}, 10, ({shape}), dtype=torch.{dtype})"
    cast = "" if dtype == "float32" else f".to(torch.{dtype})"
    return f"torch.randn({shape or '()'}){cast}"
