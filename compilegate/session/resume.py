"""Continues a stored run, under the conditions that it began with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from compilegate.records import environment_changes
from compilegate.records.case import Case
from compilegate.records.environment import Environment
from compilegate.runs import files
from compilegate.runs.reader import RunError
from compilegate.session.options import Options
from compilegate.zoo.registry import Model


def resumable(name: str, folder: Path) -> Path:
    """Return the file of a run to continue, given its path or its name in a folder.

    Raises:
        RunError: There is no such run, or it is compressed, so that no record can be added.
    """
    path = files.find(name, folder)
    if path.suffix == ".gz":
        raise RunError(f"cannot resume {path}: it is compressed; gunzip it first")
    return path


def as_in(options: Options, stored: files.Run) -> Options:
    """Return the options with the seed, the backend and the rounding that the run began with.

    Raises:
        ValueError: The command line names another one.
    """
    began: dict[str, object] = {
        name: getattr(stored.header, name) for name in ("seed", "backend", "tf32")
    }
    for name in options.explicit:
        given = getattr(options, name)
        if given != began[name]:
            option = f"--{name}" if name == "tf32" else f"--{name} {given}"
            with_it = "without it" if name == "tf32" else f"with --{name} {began[name]}"
            raise ValueError(
                f"cannot {'replay' if options.replay else 'resume'} {stored.path} with {option}: "
                f"the run began {with_it}; leave the option out, or start a new run"
            )
    return replace(
        options,
        seed=stored.header.seed,
        backend=stored.header.backend,
        tf32=stored.header.tf32,
    )


def refuse_other_environment(stored: files.Run, environment: Environment | None) -> None:
    """Refuse to continue a run in an environment that differs from the one it began in."""
    if environment is None:
        return
    if changed := environment_changes.refusals(stored.header.environment, environment):
        raise ValueError(
            f"cannot resume {stored.path}: the run began in another environment "
            f"({'; '.join(changed)}); start a new run"
        )


def refuse_other_pairing(options: Options, stored: files.Run) -> None:
    """Refuse to continue a run with a baseline if it began without one, or the other way round."""
    paired = bool(stored.header.baseline)
    if paired and options.baseline_python is None:
        raise ValueError(
            f"cannot resume {stored.path}: it was compared with another PyTorch; "
            "name its interpreter again with --baseline-python"
        )
    if not paired and options.baseline_python is not None:
        raise ValueError(
            f"cannot resume {stored.path} with --baseline-python: the run began without it; "
            "start a new run"
        )


def refuse_unknown_models(
    stored: files.Run, cases: Iterable[Case], models: Mapping[str, Model]
) -> None:
    """Refuse to continue with cases of a user's model if its zoo file is not named again."""
    for case in cases:
        if case.model not in models:
            raise ValueError(
                f"cannot resume {stored.path}: it has cases of the model {case.model!r}, which is "
                "not in the zoo; name its file again with --zoo"
            )
