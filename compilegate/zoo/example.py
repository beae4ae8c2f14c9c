"""What a recipe returns: a module and the calls that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


def check_arguments(what: str, given: Any) -> None:
    """Raise a ValueError for positional arguments that are not in a tuple: a tensor, say."""
    if not isinstance(given, (tuple, list)):
        raise ValueError(f"{what} must be a tuple of arguments, (x,), not {_kind(given)}")


def check_keywords(what: str, given: Any) -> None:
    """Raise a ValueError for keyword arguments that are not in a mapping."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} must be a dict of arguments by name, not {_kind(given)}")


def check_dims(
    dims: Mapping[int | str, Mapping[int, str]], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raise a ValueError for dimensions that no argument has."""
    given: dict[int | str, Any] = dict(enumerate(args))
    given.update(kwargs)
    for argument, names in dims.items():
        if argument not in given:
            raise ValueError(f"dims of Example name the argument {argument!r}, which is not given")
        count = getattr(given[argument], "ndim", None)
        if count is None:
            what = f"the argument {argument!r}, {_kind(given[argument])}"
            raise ValueError(f"dims of Example name dimensions of {what}")
        for dim in names:
            if not -count <= dim < count:
                what = f"dimension {dim} of the argument {argument!r}, which has {count}"
                raise ValueError(f"dims of Example name {what}")


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


@dataclass
class Call:
    """One call of a model whose calls differ in more than the values of fresh inputs.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
        before: Called before it, with the module (or with nothing, if it takes no argument): an
            attribute is changed, an optimizer stepped.
        after: Called after it, with the output (or with nothing): the caller changes the output in
            place, say.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    before: Callable[..., Any] | None = None
    after: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        check_arguments("args of Call", self.args)
        check_keywords("kwargs of Call", self.kwargs)


@dataclass
class Example:
    """A module and how it is called.

    Attributes:
        module: An ``nn.Module``, or any function of tensors.
        inputs: The positional arguments, or a function that makes them; the function is given the
            sizes of ``vary`` by name and is called anew for every call, so that values differ.
        kwargs: The keyword arguments, likewise.
        dims: Which dimensions may vary: argument (position or keyword) → dimension → its name in
            ``vary``.
        calls: Calls to make instead, one after the other, on one module.
        output: Picks what is judged from what the module returns; the whole of it by default.
        decorator: Compile a function through ``@torch.compile(...)``, not ``torch.compile(fn)``.
        signal: Whether weights that leave the computation invisible may be changed after building;
            False for weights that are loaded.
    """

    module: Callable[..., Any]
    inputs: tuple[Any, ...] | Callable[..., tuple[Any, ...]] = ()
    kwargs: dict[str, Any] | Callable[..., dict[str, Any]] = field(default_factory=dict)
    dims: Mapping[int | str, Mapping[int, str]] = field(default_factory=dict)
    calls: Sequence[Call] = ()
    output: Callable[[Any], Any] | None = None
    decorator: bool = False
    signal: bool = True

    def __post_init__(self) -> None:
        if not callable(self.inputs):
            check_arguments("inputs of Example", self.inputs)
        if not callable(self.kwargs):
            check_keywords("kwargs of Example", self.kwargs)
        calls = self.calls if isinstance(self.calls, Sequence) else (self.calls,)
        if not all(isinstance(dims, Mapping) for dims in self.dims.values()):
            raise ValueError('dims of Example must name dimensions of arguments: {0: {0: "batch"}}')
        if strange := [call for call in calls if not isinstance(call, Call)]:
            raise ValueError(
                f"calls of Example must be a list of Call((x, …)), not of {_kind(strange[0])}"
            )

    def check_sizes(self, vary: Collection[str]) -> None:
        """Hold the names of sizes to those that vary.

        Raises:
            ValueError: ``dims`` has names, but none that varies.
        """
        named = {name for dims in self.dims.values() for name in dims.values()}
        if vary and named and named.isdisjoint(vary):
            names = ", ".join(sorted(named))
            raise ValueError(f"dims of Example name {names}, but vary has {', '.join(vary)}")
