"""The zoo: named recipes of the models that compilegate compiles.

A recipe is a function decorated with :func:`model`. The decorator holds what pytest needs to
collect the cases, so that listing the zoo imports no torch. The function builds the rest when a
case is observed::

    @model("my_net", family="mlp", vary={"batch": (8, 4, 12)})
    def my_net():
        import torch
        return Example(
            MyNet(), inputs=lambda batch: (torch.randn(batch, 64),), dims={0: {0: "batch"}}
        )
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from fnmatch import fnmatchcase
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from compilegate.records.case import DEVICES, MODEL_NAME
from compilegate.records.practice import PracticeName
from compilegate.zoo import declared, import_failure
from compilegate.zoo.builder import Builder
from compilegate.zoo.declared import Sizes
from compilegate.zoo.example import Example
from compilegate.zoo.families import FAMILIES


class ZooError(ValueError):
    """A mistake in a zoo file. Its message is one sentence that names the file and the line."""


@dataclass(frozen=True)
class Model:
    """The data that pytest needs of a model to collect its cases.

    Everything here except ``build`` can be sent as JSON.

    Attributes:
        name: The name, ``[a-z0-9_.]+``. It has no dash, because dashes separate the fields of a
            case id.
        family: The name of a group of models. Over each family, the tier *standard* covers every
            pair of axis values.
        vary: The sizes that each named dimension takes: distinct and at least 2. The model is
            compiled at the first size first.
        vary_cuda: The sizes on a GPU, for the names whose sizes differ there.
        blocks: The path of the submodule whose children are the repeated blocks. The scope
            *regional* compiles each of them.
        weights: The number formats other than float32 that its weights are cast to.
        slow: Whether the cases of the model carry the marker ``slow``.
        settings: Globs on the part of a case id that follows the device (``train-f32-default-*``).
            The model has only the cases that match one of them.
        devices: The devices that the model has cases for.
        requires: The package that the model needs. Without it, the cases are skipped.
        practices: What is observed of the model other than calls: see
            :mod:`compilegate.zoo.practices`.
        source: The file that defines the model.
        builder: Where the recipe is defined in it.
        build: The recipe. It takes no argument, or ``device`` if the model differs by device.
    """

    name: str
    family: str
    vary: dict[str, tuple[int, ...]] = field(default_factory=dict)
    vary_cuda: dict[str, tuple[int, ...]] = field(default_factory=dict)
    blocks: str | None = None
    weights: tuple[str, ...] = ()
    slow: bool = False
    settings: tuple[str, ...] = ("*",)
    devices: tuple[str, ...] = DEVICES
    requires: str | None = None
    practices: tuple[PracticeName, ...] = ()
    source: str = ""
    builder: Builder = field(default_factory=Builder)
    build: Callable[..., Example] | None = None

    def sizes(self, device: str) -> dict[str, tuple[int, ...]]:
        """The sizes that vary on a device, by name."""
        return {**self.vary, **self.vary_cuda} if device == "cuda" else self.vary

    def has_setting(self, setting: str) -> bool:
        """Whether the model has cases in a setting (``train-f32-default-static``)."""
        return any(fnmatchcase(setting, glob) for glob in self.settings)

    def example(self, device: str) -> Example:
        """Build the model for a device.

        Raises:
            TypeError: The recipe returns no :class:`Example`, or one whose module is not callable.
            ValueError: The example names no size that varies, or needs one that is none.
        """
        assert self.build is not None
        takes_device = "device" in inspect.signature(self.build).parameters
        example = self.build(device=device) if takes_device else self.build()
        if not isinstance(example, Example):
            raise TypeError(
                f"the builder of model {self.name!r} ({self.source}) returned "
                f"{type(example).__name__}; it must return an Example"
            )
        if not callable(example.module):
            raise TypeError(
                f"the Example of model {self.name!r} ({self.source}) holds "
                f"{type(example.module).__name__}; it must hold a module or a function"
            )
        example.check_sizes(self.sizes(device))
        return example

    def to_dict(self) -> dict[str, Any]:
        """Everything except the recipe, for a process that must not import the file."""
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "build"}
        return found | {"builder": asdict(self.builder)}


_registry: dict[str, Model] = {}
#: The user's file whose import defined a model, by name: a helper may define it for the file.
_files: dict[str, str] = {}


def model(
    name: str,
    *,
    family: str | None = None,
    vary: Sizes | None = None,
    vary_cuda: Sizes | None = None,
    blocks: str | None = None,
    weights: Sequence[str] = (),
    slow: bool = False,
    settings: Sequence[str] = ("*",),
    devices: Sequence[str] = DEVICES,
    requires: str | None = None,
    practices: Sequence[str] = (),
) -> Callable[[Callable[..., Example]], Callable[..., Example]]:
    """Add the decorated function to the zoo.

    The function returns an :class:`Example`. It takes no argument, or ``device`` (``"cpu"`` or
    ``"cuda"``) if the model differs by device. pytest reads the arguments below to list the cases;
    it does not call the function, so import torch inside it::

        @model("my_net", vary={"batch": (8, 4, 12)})
        def my_net():
            import torch
            return Example(
                torch.nn.Linear(64, 64),
                inputs=lambda batch: (torch.randn(batch, 64),),
                dims={0: {0: "batch"}},
            )

    Args:
        name: The model's name in case ids: ``a-z``, ``0-9``, ``_`` and ``.``, without dashes.
        family: The group that shares the coverage of the tier *standard*: over each family, every
            pair of axis values occurs. Default: the name of the module that defines the function.
        vary: The sizes that each named dimension takes, such as ``{"batch": (8, 4, 12)}``. They
            are distinct and at least 2. The model is compiled at the first size first.
            ``Example.dims`` says which dimensions of the inputs have these names.
        vary_cuda: The sizes on a GPU, for the names whose sizes differ there.
        blocks: The path of the submodule whose children are the repeated blocks, such as
            ``"encoder.layers"``. It adds cases with the scope *regional*, which compile each block.
        weights: The number formats other than float32 that the weights are cast to, such as
            ``"bf16_weights"``. Each adds cases in which the module and its floating inputs have
            that format, without autocast.
        slow: Whether the model's cases carry the marker ``slow``.
        settings: Globs on what follows the device in a case id, such as ``"train-f32-default-*"``.
            The model has only the cases that match one of them.
        devices: The devices that the model runs on, such as ``("cuda",)`` for a kernel in Triton.
        requires: The package that the model needs. Without it, the cases are skipped.
        practices: What to observe of the model other than calls, such as ``"checkpoints"``. Each
            adds to one case of the model.

    Returns:
        The decorator. It returns the function unchanged.

    Raises:
        ZooError: The name is malformed or already taken, the sizes would make torch.compile
            specialise by accident, or there is no such practice, device or format of weights.
    """

    def register(build: Callable[..., Example]) -> Callable[..., Example]:
        source = inspect.getsourcefile(build) or "?"
        where = _place(build)
        if not MODEL_NAME.fullmatch(name):
            raise ZooError(f"{where}: model name {name!r}: only a-z, 0-9, _ and . are allowed")
        if (other := _registry.get(name)) is not None and other.build is not None:
            raise ZooError(
                f"{where}: model {name!r} is already defined in {_place(other.build)}; "
                "choose another name"
            )
        try:
            entry = Model(
                name=name,
                family=family or build.__module__.rpartition(".")[2],
                vary=declared.sizes(vary),
                vary_cuda=declared.sizes(vary_cuda),
                blocks=blocks,
                weights=declared.weights(weights),
                slow=slow,
                settings=declared.settings(settings),
                devices=declared.devices(devices),
                requires=requires,
                practices=declared.practices(practices),
                source=source,
                builder=Builder.of(build),
                build=build,
            )
        except ValueError as error:
            raise ZooError(f"{where}: {error}") from error
        if unknown := entry.vary_cuda.keys() - entry.vary.keys():
            raise ZooError(f"{where}: vary_cuda names {sorted(unknown)}, but vary does not")
        _registry[name] = entry
        return build

    return register


def _place(build: Callable[..., Example]) -> str:
    """Where a builder is defined, as ``file:line``."""
    return f"{inspect.getsourcefile(build) or '?'}:{build.__code__.co_firstlineno}"


def load() -> dict[str, Model]:
    """Return the shipped zoo by name, in the order of definition. Imports no torch."""
    for family in FAMILIES:
        module = f"compilegate.fixtures.{family}"
        with _all_or_nothing(module):
            importlib.import_module(module)
    return dict(_registry)


@contextlib.contextmanager
def _all_or_nothing(module: str) -> Iterator[None]:
    """Forget a module and its models if its import fails, so that it can be imported again."""
    models, was_loaded = dict(_registry), module in sys.modules
    try:
        yield
    except BaseException:
        _registry.clear()
        _registry.update(models)
        if not was_loaded:
            sys.modules.pop(module, None)
        raise


class _WithoutBytecode(SourceFileLoader):
    """Compiles the source each time.

    Python takes bytecode for current if the source has the same size and was written in the same
    second. ``compilegate triage`` and ``fuzz`` write a file again sooner than that.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def load_file(path: str | Path, *, must_define_model: bool = False) -> list[Model]:
    """Import a user's zoo file and return the models that it defines.

    Only the observing child calls this: the file may import torch. The folder of the file stays at
    the end of ``sys.path``, so that a builder can import the user's own package when it runs.

    Args:
        path: The file.
        must_define_model: Whether to refuse a file without models. Such a file may still be useful:
            it can prepare the process.

    Raises:
        ZooError: The file cannot be imported, defines a model wrongly, or defines none.
    """
    load()  # so that a name of the shipped zoo is refused
    path = Path(path).resolve()
    known = set(_registry)
    if path.suffix != ".py":
        raise ZooError(f"the zoo file {path} is not a Python file: its name must end in .py")
    loader = _WithoutBytecode(path.stem, str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    with _all_or_nothing(path.stem):
        sys.modules.setdefault(path.stem, module)
        try:
            loader.exec_module(module)
        except ZooError:
            raise
        except (Exception, SystemExit) as error:
            raise ZooError(import_failure.describe(path, error)) from error
        defined = [entry for name, entry in _registry.items() if name not in known]
        if must_define_model and not defined:
            raise ZooError(
                f'{path.name}:1: the file defines no model: decorate a builder with @model("name")'
            )
    _files.update({entry.name: str(path) for entry in defined})
    return defined


def file_of(model: Model) -> str:
    """Return the file that a process must load to have a model of a user."""
    return _files.get(model.name, model.source)


def load_with(files: Iterable[str | Path]) -> dict[str, Model]:
    """Return the shipped zoo together with the models of a user's files.

    A file without models is accepted.

    Raises:
        ZooError: A file cannot be imported or defines a model wrongly.
    """
    models = load()
    for file in files:
        models |= {entry.name: entry for entry in load_file(file)}
    return models
