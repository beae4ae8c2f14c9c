"""A hazard: a pattern of Python that breaks graphs or compiles again, and its rewrite.

Both are examples, so that outputs, gradients, side effects and actions before a call are judged as
those of any model. What documents need stands in the decorator, as in :mod:`.registry`::

    EVERYDAY = Catalogue("Everyday Python")

    @EVERYDAY.hazard("print", pattern="`print(x.sum())`", rewrite="...", breaks=("GB0059",))
    def printing():
        import torch
        ...
        return Example(as_written, calls=calls), Example(rewritten, calls=calls)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compilegate.zoo.example import Example

#: Returns the pattern and its rewrite, whose outputs and gradients must be equal.
Build = Callable[[], tuple[Example, Example]]


@dataclass(frozen=True, kw_only=True)
class Hazard:
    """A pattern that breaks graphs or compiles again, and how to write it instead.

    Attributes:
        name: Its name in verdicts.
        pattern: The pattern, in Markdown.
        rewrite: How to write it instead, in Markdown.
        breaks: The id in PyTorch's registry of each graph break that it causes, once for each line
            of code that breaks.
        whole: Whether ``fullgraph=True`` captures it: it also captures scalars and sizes that
            depend on values, which otherwise break the graph.
        recompiles: How often it compiles one code object again over its calls.
        rewritten_recompiles: How often the rewrite does.
        build: Returns both as examples.
    """

    name: str
    pattern: str
    rewrite: str
    breaks: tuple[str, ...] = ()
    whole: bool = False
    recompiles: int = 0
    rewritten_recompiles: int = 0
    build: Build


class Catalogue:
    """Hazards of one kind, in the order of definition.

    Args:
        title: The kind, as a heading.

    Attributes:
        hazards: The hazards.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.hazards: list[Hazard] = []

    def hazard(
        self,
        name: str,
        *,
        pattern: str,
        rewrite: str,
        breaks: Sequence[str] = (),
        whole: bool = False,
        recompiles: int = 0,
        rewritten_recompiles: int = 0,
    ) -> Callable[[Build], Build]:
        """Add the decorated function, which builds the pattern and its rewrite.

        The arguments are the fields of :class:`Hazard`.

        Returns:
            The decorator. It returns the function unchanged.

        Raises:
            ValueError: The catalogue has a hazard of this name.
        """
        if name in [known.name for known in self.hazards]:
            raise ValueError(f"hazard {name!r} is already in {self.title!r}; choose another name")

        def add(build: Build) -> Build:
            self.hazards.append(
                Hazard(
                    name=name,
                    pattern=pattern,
                    rewrite=rewrite,
                    breaks=tuple(sorted(breaks)),
                    whole=whole or not breaks,
                    recompiles=recompiles,
                    rewritten_recompiles=rewritten_recompiles,
                    build=build,
                )
            )
            return build

        return add
