"""The zoo: named recipes for the models that are compiled.

A recipe is a function decorated with :func:`model`. What collection has to know stands in the
decorator, so that listing the zoo imports no torch; the rest is built when the case is observed::

    @model("my_net", family="mlp", vary={"batch": (8, 4, 12)})
    def my_net():
        import torch
        return Example(
            MyNet(), inputs=lambda batch: (torch.randn(batch, 64),), dims={0: {0: "batch"}}
        )
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from compilegate.records.case import MODEL_NAME
from compilegate.zoo.example import Example

#: The modules of the shipped zoo, one a family but for the last four.
FAMILIES = (
    "tutorials",
    "torchvision_convnets",
    "torchvision_transformers",
    "torchvision_tasks",
    "timm_convnets",
    "timm_transformers",
    "transformers_encoders",
    "transformers_decoders",
    "transformers_multimodal",
    "regressions_values",
    "regressions_gradients",
    "regressions_state",
    "regressions_compile",
)

Sizes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Model:
    """What collection knows of a zoo entry; everything here but ``build`` can be sent as JSON.

    Attributes:
        name: ``[a-z0-9_.]+``, no dash: ids split on it.
        family: Models that share the pairs of axis values of the tier *standard*.
        vary: Name → sizes (≥ 2, distinct) that a dimension takes; the first is compiled first.
        vary_cuda: The same for a GPU, where it differs.
        blocks: Path of the submodule whose children are the repeated blocks of scope *regional*.
        slow: Whether its cases carry the marker ``slow``.
        settings: Globs on what follows the device in an id (``train-f32-default-*``): the settings
            that the model exists in; all of them by default.
        requires: The package without which it is skipped.
        source: The file that defines it.
        build: The recipe. Takes no argument, or ``device`` where the model differs between devices.
    """

    name: str
    family: str
    vary: dict[str, tuple[int, ...]] = field(default_factory=dict)
    vary_cuda: dict[str, tuple[int, ...]] = field(default_factory=dict)
    blocks: str | None = None
    slow: bool = False
    settings: tuple[str, ...] = ("*",)
    requires: str | None = None
    source: str = ""
    build: Callable[..., Example] | None = None

    def sizes(self, device: str) -> dict[str, tuple[int, ...]]:
        """The sizes that vary on a device."""
        return {**self.vary, **self.vary_cuda} if device == "cuda" else self.vary

    def example(self, device: str) -> Example:
        """Build the model as it is measured on the device.

        Raises:
            TypeError: The recipe does not return an :class:`Example` of something callable.
            ValueError: Its sizes are not those of ``vary``.
        """
        assert self.build is not None
        takes_device = "device" in inspect.signature(self.build).parameters
        example = self.build(device=device) if takes_device else self.build()
        if not isinstance(example, Example):
            raise TypeError(
                f"the builder of model {self.name!r} ({self.source}) returned "
                f"{type(example).__name__}, not an Example"
            )
        if not callable(example.module):
            raise TypeError(
                f"the Example of model {self.name!r} ({self.source}) holds "
                f"{type(example.module).__name__}, which is neither a module nor a function"
            )
        example.check_sizes(self.vary)
        return example

    def to_dict(self) -> dict[str, Any]:
        """Everything but the recipe, for a process that must not import it."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "build"}


_registry: dict[str, Model] = {}


def model(
    name: str,
    *,
    family: str | None = None,
    vary: Sizes | None = None,
    vary_cuda: Sizes | None = None,
    blocks: str | None = None,
    slow: bool = False,
    settings: Sequence[str] = ("*",),
    requires: str | None = None,
) -> Callable[[Callable[..., Example]], Callable[..., Example]]:
    """Enter the decorated builder into the zoo; the arguments are those of :class:`Model`.

    The family is the defining module's name where none is given.

    Raises:
        ValueError: A malformed or duplicate name, or sizes that would specialise by accident.
    """

    def register(build: Callable[..., Example]) -> Callable[..., Example]:
        source = inspect.getsourcefile(build) or "?"
        where = f"{source}:{build.__code__.co_firstlineno}"
        if not MODEL_NAME.fullmatch(name):
            raise ValueError(f"{where}: model name {name!r}: only a-z, 0-9, _ and . are allowed")
        if name in _registry:
            raise ValueError(
                f"{where}: model {name!r} is already defined in {_registry[name].source}"
            )
        entry = Model(
            name=name,
            family=family or build.__module__.rpartition(".")[2],
            vary=_checked_sizes(where, vary),
            vary_cuda=_checked_sizes(where, vary_cuda),
            blocks=blocks,
            slow=slow,
            settings=(settings,) if isinstance(settings, str) else tuple(settings),
            requires=requires,
            source=source,
            build=build,
        )
        if unknown := entry.vary_cuda.keys() - entry.vary.keys():
            raise ValueError(f"{where}: vary_cuda names {sorted(unknown)}, which vary does not")
        _registry[name] = entry
        return build

    return register


def _checked_sizes(where: str, vary: Sizes | None) -> dict[str, tuple[int, ...]]:
    for name, sizes in (vary or {}).items():
        if not sizes or min(sizes) < 2 or len(set(sizes)) < len(sizes):
            raise ValueError(
                f"{where}: sizes of {name!r} must be distinct and at least 2 "
                f"(torch.compile specialises on 0 and 1), not {tuple(sizes)}"
            )
    return {name: tuple(sizes) for name, sizes in (vary or {}).items()}


def load() -> dict[str, Model]:
    """The shipped zoo by name, in the order of definition. Imports no torch."""
    for family in FAMILIES:
        importlib.import_module(f"compilegate.fixtures.{family}")
    return dict(_registry)


def load_file(path: str | Path) -> list[Model]:
    """Import a user's zoo file and return the models that it defines.

    Only the observing child does this: the file may import torch. One that defines none may be
    there to set up the process.
    """
    load()  # so that a name taken by the shipped zoo is refused
    path = Path(path).resolve()
    known = set(_registry)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return [entry for name, entry in _registry.items() if name not in known]


def load_with(files: Iterable[str | Path]) -> dict[str, Model]:
    """The shipped zoo with the models of a user's files."""
    models = load()
    for file in files:
        models |= {entry.name: entry for entry in load_file(file)}
    return models
