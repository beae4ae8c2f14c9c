"""An example: the module that a recipe returns, and the calls that compilegate makes of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from compilegate.zoo.generation import Generation

if TYPE_CHECKING:  # a hazard holds examples
    from compilegate.zoo.hazard import Hazard


#: Names an argument by its position or its keyword, or what is inside of it by a path: a tensor of
#: a dict is ``("batch", "image")`` or ``(0, "image")``.
Argument = int | str | tuple[int | str, ...]

_SEQUENCES = (list, tuple)

#: The modules of options that ``Example.config`` may name: ``torch._inductor.config`` and so on.
CONFIGS = ("dynamo", "functorch", "inductor")


def check_arguments(what: str, given: Any) -> None:
    """Raise a ValueError for positional arguments that are not in a tuple."""
    if not isinstance(given, (tuple, list)):
        hint = "; arguments by name go into kwargs" if isinstance(given, Mapping) else ""
        raise ValueError(f"{what} must be a tuple of arguments, (x,), not {_kind(given)}{hint}")


def check_keywords(what: str, given: Any) -> None:
    """Raise a ValueError for keyword arguments that are not in a mapping."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} must be a dict of arguments by name, not {_kind(given)}")


def argument_of(named: Argument, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return an argument, or what is inside of it.

    Args:
        named: Its name.
        args: The positional arguments.
        kwargs: The others.

    Raises:
        LookupError: There is none.
    """
    first, *inner = named if isinstance(named, tuple) else (named,)
    value = args[first] if isinstance(first, int) else kwargs[first]
    for key in inner:
        held: Any = value
        if isinstance(value, Mapping) or (isinstance(key, int) and isinstance(value, _SEQUENCES)):
            value = held[key]
        elif key in _fields_of(value):
            value = getattr(value, str(key))
        else:
            raise LookupError(key)
    return value


def _fields_of(value: object) -> Collection[str]:
    """Return the fields of a dataclass or of a named tuple."""
    if is_dataclass(value):
        return [one.name for one in fields(value)]
    return getattr(value, "_fields", ())


def check_dims(
    dims: Mapping[Argument, Mapping[int, str]], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Raise a ValueError for dimensions that the arguments do not have."""
    for argument, names in dims.items():
        try:
            given = argument_of(argument, args, kwargs)
        except LookupError:
            what = f"the argument {argument!r}, which is not given"
            raise ValueError(f"dims of Example name {what}") from None
        count = getattr(given, "ndim", None)
        if count is None:
            hint = ""
            if isinstance(given, (Mapping, list, tuple)):
                first, *path = argument if isinstance(argument, tuple) else (argument,)
                key = next(iter(given), "…") if isinstance(given, Mapping) else 0
                hint = f"; name a tensor in it, as in {{{(first, *path, key)!r}: {dict(names)!r}}}"
            what = f"the argument {argument!r}, {_kind(given)}{hint}"
            raise ValueError(f"dims of Example name dimensions of {what}")
        for dim in names:
            if not -count <= dim < count:
                what = f"dimension {dim} of the argument {argument!r}, which has {count}"
                raise ValueError(f"dims of Example name {what}")


def _is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _needs(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments without which a function cannot be called."""
    return [
        name
        for name, p in inspect.signature(function).parameters.items()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


@dataclass
class Call:
    """One call, for models whose calls differ in more than their inputs' values.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
        before: A function that compilegate calls before the call. It receives the module if it
            takes an argument. It can change an attribute or step an optimizer.
        after: A function that compilegate calls after the call. It receives the output if it takes
            an argument. It can change the output in place.
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
    """A module and its calls.

    Attributes:
        module: An ``nn.Module``, or any function of tensors.
        inputs: The positional arguments, or a function that returns them. compilegate passes the
            sizes of ``vary`` by name. It calls the function for every call, so that values differ.
        kwargs: The keyword arguments, or a function that returns them.
        dims: The dimensions that may vary: argument → dimension → its name in ``vary``. An argument
            is a position or a keyword; a tensor in a dict or a list is a path, ``(0, "image")``.
        calls: A list of calls to make on one module, one after the other. It replaces ``inputs``
            and ``kwargs``.
        output: A function that picks the judged part from the output of the module. By default,
            compilegate judges the whole output. It compares the rest, but takes no gradient from
            it, and does not mind if the rest shows nothing.
        decorator: Whether to compile a function with ``@torch.compile(...)`` instead of
            ``torch.compile(fn)``.
        signal: Whether compilegate may change weights that hide the computation after building.
            Set it to False for weights that are loaded.
        metric: A function that receives the model and returns one score for each sample of a team's
            data, the higher the better, for the practice ``metric``. It calls the model as often as
            it likes. compilegate moves the arguments of these calls to the device.
        hazards: Patterns of code to observe in the practice ``hazards``, which have nothing to do
            with the module.
        generation: How the module generates, for the practice ``generation``.
        config: Options of PyTorch's compiler for this example alone, by the name of their module:
            ``{"inductor.max_fusion_size": 8, "functorch.donated_buffer": False}``. A case whose
            PyTorch lacks an option fails.
        with_grad: Whether cases of *infer* call the module with grad mode on. No backward follows.
        raises: The exception that every call must raise. Compiled code must raise the same class
            with the same message.
    """

    module: Callable[..., Any]
    inputs: tuple[Any, ...] | Callable[..., tuple[Any, ...]] = ()
    kwargs: dict[str, Any] | Callable[..., dict[str, Any]] = field(default_factory=dict)
    dims: Mapping[Argument, Mapping[int, str]] = field(default_factory=dict)
    calls: Sequence[Call] = ()
    output: Callable[[Any], Any] | None = None
    decorator: bool = False
    signal: bool = True
    metric: Callable[[Callable[..., Any]], Iterable[float]] | None = None
    hazards: Sequence[Hazard] = ()
    generation: Generation | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    with_grad: bool = False
    raises: type[Exception] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.module, type):
            name = self.module.__name__
            raise TypeError(f"module of Example is the class {name}: give an instance, {name}(…)")
        if hasattr(self.inputs, "named_parameters"):
            name = type(self.inputs).__name__
            raise ValueError(f"inputs of Example are a module, {name}: write Example({name}(…), …)")
        if not callable(self.inputs):
            check_arguments("inputs of Example", self.inputs)
        if not callable(self.kwargs):
            check_keywords("kwargs of Example", self.kwargs)
        if self.metric is not None and self.signal:
            raise ValueError(
                "metric of Example needs signal=False: otherwise compilegate may change weights"
            )
        for name in self.config:
            if name.partition(".")[0] not in CONFIGS:
                raise ValueError(
                    f"config of Example names {name!r}; options begin with "
                    f"{', '.join(f'{known}.' for known in CONFIGS)}"
                )
        if self.raises is not None and not _is_exception(self.raises):
            raise ValueError(f"raises of Example must be an exception class, not {self.raises!r}")
        calls = self.calls if isinstance(self.calls, Sequence) else (self.calls,)
        if not all(isinstance(dims, Mapping) for dims in self.dims.values()):
            raise ValueError('dims of Example must name dimensions of arguments: {0: {0: "batch"}}')
        if strange := [call for call in calls if not isinstance(call, Call)]:
            raise ValueError(
                f"calls of Example must be a list of Call((x, …)), not of {_kind(strange[0])}"
            )

    def check_sizes(self, vary: Collection[str]) -> None:
        """Check against the names of the sizes that vary.

        Raises:
            ValueError: ``dims`` names dimensions, but none of them varies; or a function needs an
                argument that is no size.
        """
        for what, given in (("inputs", self.inputs), ("kwargs", self.kwargs)):
            if callable(given) and (lacking := [n for n in _needs(given) if n not in vary]):
                takes, names = ", ".join(lacking), ", ".join(vary) or "no sizes"
                wanted = ", ".join(f'"{name}": (8, 4, 12)' for name in lacking)
                raise ValueError(
                    f"{what} of Example is a function of {takes}, but vary has {names}: "
                    f"write @model(…, vary={{{wanted}}}) with the sizes that you want"
                )
        named = {name for dims in self.dims.values() for name in dims.values()}
        if vary and named and named.isdisjoint(vary):
            names = ", ".join(sorted(named))
            raise ValueError(f"dims of Example name {names}, but vary has {', '.join(vary)}")
