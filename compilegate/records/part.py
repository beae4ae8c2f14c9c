"""The part of a case's model that a trial observes by itself, and what a child tells of it.

Standard library only: the observed interpreter need not have more than torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: How many lines of a graph are few enough to be named.
FEW = 4


@dataclass(frozen=True, kw_only=True)
class Part:
    """A model of its own, made from the model of a case.

    Attributes:
        name: Its name in the zoo of the trial.
        case: The case whose model it is made from.
        seed: The seed of that model's weights and inputs.
        path: The submodule that is compiled alone, with the inputs that eager gives it. Empty for
            the whole model, with the calls of its recipe.
        calls: How many calls a submodule gets. In later ones its inputs have another order.
        sizes: Smaller sizes of the whole model, by name; those of its recipe by default.
        index: The number, from 0, of the call that a submodule gets after the first one: that which
            shows the failure first.
        probe: The probing call that a submodule gets, too; empty for none.
        identities: Submodules that an ``nn.Identity`` replaces.
        disabled: Submodules that ``torch.compiler.disable`` leaves to eager.
        stance: What ``torch.compiler.set_stance`` is given; empty for none. *eager_on_recompile*
            is taken after the first call.
        config: Options of the compiler, by the names that ``Example.config`` has. A list names
            functions, as ``builtins.print``.
        disabled_at: File and line of the function that ``torch.compiler.disable`` leaves to eager;
            empty for none.
        without: Keys of :class:`OwnCode` that are taken out of the compiler.
        tree: The file that receives the submodules as JSON; empty for none.
        graph: The file that receives the graph as JSON; empty for none. Then nothing is observed.
        operators: The file that receives the operators of its graphs as JSON; empty for none. Then
            nothing is observed.
        lines: The file that receives the first line that computes something else, as JSON; empty
            for none. Then nothing is observed.
        backend: What *lines* compares: *eager* for eager and Dynamo's graphs, *aot_eager* for
            Dynamo's graphs and AOTAutograd's.
        construction: The file that receives how the submodule is made and called, as JSON, if that
            can be written down; empty for none. Then nothing is observed.
        checkpoints: The file that receives what is drawn inside checkpoints, as JSON; empty for
            none. Then nothing is observed.
        recomputes: Whether the backward of compiled code computes again what is in a checkpoint.
        cpp: The file that receives the line of C++ that does not compile, as JSON; empty for none.
            Then nothing is observed.
        raising: The file that receives the line whose operator raises with *backend*, as JSON;
            empty for none. Then nothing is observed.
        own: The file that receives the code in the compiler that is not PyTorch's, as JSON; empty
            for none. Then nothing is observed.
        kernels: The file that receives the kernels as JSON; empty for none. Then nothing is
            observed.
        held: The file that receives what memory holds at the peak, as JSON; empty for none. Then
            nothing is observed.
    """

    name: str
    case: str
    seed: int
    path: str = ""
    calls: int = 1
    sizes: dict[str, int] = field(default_factory=dict)
    index: int = 0
    probe: str = ""
    identities: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    stance: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    disabled_at: str = ""
    without: tuple[str, ...] = ()
    tree: str = ""
    graph: str = ""
    operators: str = ""
    lines: str = ""
    backend: str = ""
    construction: str = ""
    checkpoints: str = ""
    recomputes: bool = True
    cpp: str = ""
    raising: str = ""
    own: str = ""
    kernels: str = ""
    held: str = ""


@dataclass(frozen=True, kw_only=True)
class LineDiffers:
    """The first line of the user's code that computes something else in a graph.

    Attributes:
        source: Its file and number; empty if each line that was compared computes the same.
        code: Its text.
        caller: The line that calls the function which has it; empty if that is not known.
        modules: The submodule in which eager runs the line, and the one in which the graph does;
            empty if they are the same one.
        right: What differs of its result, as eager has it; empty where eager does not run the line.
        wrong: What differs of it in the graph; empty where no graph has such a result.
        left_out: Lines that eager runs before this one, with results that no graph has.
        left_out_at: The line that calls the function of the first of these; empty if that is known
            already.
        unseen: Lines before this one that have results in the graph alone: eager computes them with
            functions that are not PyTorch's, or not at all.
        lines: Where each line that was compared computes the same: all lines of the graph, if they
            are few.
        writes: Of AOTAutograd, where each line computes the same: lines that write to a tensor.
        touched: The line that makes each output, as ``output.logits``, and the first that reads
            each parameter, each buffer and each input.
        changed: The lines that change each attribute or variable in eager, by its name.
        lost: Of these, where each line computes the same, those of a state of Python that differs.
        lost_from: What that state is, as *attribute order[0]*.
        compared: How many results were the same before.
    """

    source: str = ""
    code: str = ""
    caller: str = ""
    modules: tuple[str, ...] = ()
    right: str = ""
    wrong: str = ""
    left_out: tuple[str, ...] = ()
    left_out_at: str = ""
    unseen: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    touched: dict[str, str] = field(default_factory=dict)
    changed: dict[str, list[str]] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    lost_from: str = ""
    compared: int = 0


@dataclass(frozen=True)
class CheckpointDraws:
    """The lines of the user's code that draw random numbers inside ``torch.utils.checkpoint``.

    Attributes:
        kept: Those of checkpoints whose backward must draw the same numbers again. PyTorch's
            backend ``eager`` draws others.
        renewed: Those of checkpoints with ``preserve_rng_state=False``. Eager draws others in the
            backward, as does the backend ``eager``, and those above it draw the same.
    """

    kept: tuple[str, ...] = ()
    renewed: tuple[str, ...] = ()


@dataclass(frozen=True)
class CppLine:
    """A line of C++ that Inductor has generated, and that does not compile.

    Attributes:
        line: Its text.
        operator: The operator of the graph that it belongs to.
        source: The line of the user's code that calls it; empty if that is not known.
    """

    line: str
    operator: str
    source: str = ""


class Arguments(NamedTuple):
    """What a constructor or a submodule is given: expressions.

    Attributes:
        args: The positional arguments.
        kwargs: The others, by name.
    """

    args: Sequence[str]
    kwargs: Mapping[str, str]

    @property
    def text(self) -> str:
        """The arguments as a call has them."""
        named = (f"{name}={value}" for name, value in self.kwargs.items())
        return ", ".join([*self.args, *named])


@dataclass(frozen=True, kw_only=True)
class Construction:
    """How a submodule is made and called: expressions, which need nothing else of the model.

    Attributes:
        file: The source file of its class.
        module: The module that defines the class.
        name: The name of the class.
        given: What its constructor is given.
        calls: What eager calls it with, in the first call of the model and in the one that shows
            the failure, if that is another. Tensors are new ones, of the same shapes, strides,
            dtypes and ranges.
    """

    file: str
    module: str
    name: str
    given: Arguments
    calls: Sequence[Arguments]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Construction:
        """Return what JSON tells of a construction, where tuples are lists."""
        given = Arguments(*told["given"])
        calls = tuple(Arguments(*each) for each in told["calls"])
        return cls(**{**told, "given": given, "calls": calls})


@dataclass(frozen=True, kw_only=True)
class OwnCode:
    """Code that the compiler runs and that is not PyTorch's: a pass, a decomposition, a lowering.

    Attributes:
        kind: pass, decomposition or lowering.
        keys: The hooks, or the operators, that it is registered for.
        name: Its module and its name.
        source: Its file and line.
        owner: The package that has it; empty for code of the user's project.
        is_late: Whether the recipe registers it: trials that run no recipe lack it.
    """

    kind: str
    keys: tuple[str, ...]
    name: str
    source: str
    owner: str = ""
    is_late: bool = False


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """An operator or kernel of a call.

    Attributes:
        name: As PyTorch's profiler calls it.
        eager_us: Microseconds in an eager call, without what it calls itself.
        compiled_us: The same in a compiled call.
    """

    name: str
    eager_us: float
    compiled_us: float


@dataclass(frozen=True, kw_only=True)
class Held:
    """Blocks of memory at the peak of a call: of one size, allocated by one operator.

    Attributes:
        operator: As PyTorch's profiler calls it.
        size: Bytes of each block.
        eager: How many there are at the peak of an eager call.
        compiled: The same at the peak of a compiled call.
    """

    operator: str
    size: int
    eager: int
    compiled: int
