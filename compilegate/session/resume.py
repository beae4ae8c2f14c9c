"""Going on with a stored run: only with what it was begun with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from compilegate.records.case import Case
from compilegate.records.environment import Environment, changes
from compilegate.runs import files
from compilegate.session.options import Options
from compilegate.zoo.registry import Model


def stored_run(options: Options) -> files.Run | None:
    """The run that is replayed or resumed, if any.

    Raises:
        RunError: It cannot be read or, to be resumed, be written to.
    """
    name = options.replay or options.resume
    if not name:
        return None
    path = files.find(name, options.runs)
    if options.resume:
        refuse_compressed(path)
    return files.read(path)


def refuse_compressed(path: Path) -> None:
    """Refuse to go on with a file that records cannot be added to."""
    if path.suffix == ".gz":
        raise files.RunError(f"cannot resume {path}: it is compressed; gunzip it first")


def as_in(options: Options, stored: files.Run) -> Options:
    """A resumed run goes on with the seed, the backend and the rounding that it began with."""
    return replace(
        options,
        seed=stored.header.seed,
        backend=stored.header.backend,
        tf32=stored.header.tf32,
    )


def refuse_other_environment(stored: files.Run, environment: Environment | None) -> None:
    """Refuse to go on where anything that was observed with has changed."""
    if environment is None:
        return
    if changed := changes(stored.header.environment.parts, environment.parts):
        raise ValueError(
            f"cannot resume {stored.path}: it was made in another environment "
            f"({'; '.join(changed)}); start a new run"
        )


def refuse_other_pairing(options: Options, stored: files.Run) -> None:
    """Refuse to go on with another baseline than the run began with."""
    paired = bool(stored.header.baseline)
    if paired and options.baseline_python is None:
        raise ValueError(
            f"cannot resume {stored.path}: it was held against another PyTorch; "
            "name that one again with --baseline-python"
        )
    if not paired and options.baseline_python is not None:
        raise ValueError(
            f"cannot resume {stored.path} with --baseline-python: it began without; start a new run"
        )


def refuse_unknown_models(
    stored: files.Run, cases: Iterable[Case], models: Mapping[str, Model]
) -> None:
    """Refuse to go on with cases of a user's models that were not named again."""
    for case in cases:
        if case.model not in models:
            raise ValueError(
                f"cannot resume {stored.path}: it has cases of the model {case.model!r}, which is "
                "not in the zoo; name its file again with --zoo"
            )
