"""The place: the smallest submodule that fails when it is compiled alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compilegate.fuzzing.program import Statement
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.trials import Trials, part


@dataclass
class Place:
    """Where in a model a failure shows.

    Attributes:
        path: The smallest submodule that fails alone; empty for the whole model.
        kind: Its class; empty for the whole model.
        model: The class of the whole model; empty if it is a function.
        text: What it shows alone.
        identities: Submodules that an ``nn.Identity`` may replace while the whole model fails.
        tried: What each submodule showed, in the order in which they were compiled.
        without: Where none of its submodules fails alone: what it shows with each left to eager.
        is_complete: Whether all submodules were compiled alone that there was time for.
        is_dissected: Whether each was left to eager in turn.
        kinds: The class of each submodule that a call enters.
        operator: The function of its graph that fails alone; empty if none does or none was found.
        source: The line of the user's code that calls it; empty if that is not known.
    """

    path: str = ""
    kind: str = ""
    model: str = ""
    text: str = ""
    identities: list[str] = field(default_factory=list)
    tried: dict[str, Seen] = field(default_factory=dict)
    without: dict[str, Seen] = field(default_factory=dict)
    is_complete: bool = False
    is_dissected: bool = False
    kinds: dict[str, str] = field(default_factory=dict)
    operator: str = ""
    source: str = ""

    @property
    def alike(self) -> list[str]:
        """All submodules of its class: one cause may be in each of them."""
        return [path for path, kind in self.kinds.items() if kind == self.kind]

    @property
    def needed(self) -> list[str]:
        """The submodules that must be compiled with the rest, so that it fails."""
        return [path for path, seen in self.without.items() if seen.state == "good"]

    @property
    def failing(self) -> list[str]:
        """The submodules that fail alone."""
        return [path for path, seen in self.tried.items() if seen.state == "bad"]

    def widen(self) -> None:
        """Name the whole model, since others fail, too, with the submodule left to eager."""
        self.path = self.kind = self.text = ""

    def name_operator(self, statement: Statement) -> None:
        """Note that the operator of a statement fails alone."""
        self.operator, self.source = statement.operator, statement.source

    def __str__(self) -> str:
        """The submodule and its class."""
        return f"{self.path} ({self.kind})" if self.path else "the whole model"


def descend(trials: Trials, place: Place, backend: str) -> None:
    """Compile submodules alone, from the top down: of those that fail, the first of each level.

    Where none fails alone, each in turn is left to eager: does the failure need it?

    Args:
        trials: Observes submodules.
        place: Receives what is found, also if the time is over before the end.
        backend: The compiler backend.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    tree, _ = trials.told(part(), "tree")
    kinds = place.kinds = {entry["path"]: entry["kind"] for entry in tree or ()}
    place.model = kinds.pop("", "")
    while True:
        paths = _children(place.path, kinds)
        alone = [part(path=path) for path in paths]
        for path, seen in zip(paths, trials.of_parts(alone, backend), strict=False):
            place.tried[path] = seen
            if seen.state == "bad":
                place.path, place.kind, place.text = path, kinds[path], seen.text
                break
        else:
            break
    place.is_complete = True
    without = [part(path=place.path, disabled=(path,)) for path in paths]
    for path, seen in zip(paths, trials.of_parts(without, backend), strict=True):
        place.without[path] = seen
    place.is_dissected = True


def _children(path: str, known: Sequence[str] | dict[str, str]) -> list[str]:
    """Return the nearest submodules below one that a call enters, in the order of their calls."""
    prefix = f"{path}." if path else ""
    below = [name for name in known if name.startswith(prefix)]
    return [
        name
        for name in below
        if not any(name.startswith(f"{other}.") for other in below if other != name)
    ]


def replace_others(trials: Trials, place: Place, backend: str) -> None:
    """Replace submodules outside the place by identities, one after the other, while it fails.

    Args:
        trials: Observes the whole model.
        place: Where the failure shows. It receives what was replaced.
        backend: The compiler backend.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    for name in place.tried:
        is_around = name == place.path or place.path.startswith(f"{name}.")
        is_gone = any(name.startswith(f"{other}.") for other in place.identities)
        if is_around or is_gone:
            continue
        tried = (*place.identities, name)
        if trials.of_part(part(identities=tried), backend).state == "bad":
            place.identities.append(name)
