"""The header of a run file: what the session observes, where, and with which options."""

from __future__ import annotations

import contextlib
import datetime
import subprocess
from importlib import metadata

from compilegate.layout import PACKAGE
from compilegate.records.environment import Environment
from compilegate.records.run import SCHEMA, Header
from compilegate.session.results import Results


def header_of(results: Results, environment: Environment) -> Header:
    """Return the header of the session's run."""
    options, files = results.plan.options, results.plan.run_files
    baseline = files.baseline_path if files else None
    return Header(
        schema=SCHEMA,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        environment=environment,
        arguments=(*options.arguments, *options.ini_files),
        revision=_revision(),
        seed=options.seed,
        tier=results.plan.tier,
        backend=options.backend,
        planned=tuple(results.planned),
        baseline=baseline.stem if baseline else "",
        tf32=options.tf32,
        files=options.files,
        shard=options.shard or "",
        import_folders=options.import_folders,
    )


def _revision() -> str:
    """Return the git revision of compilegate's checkout, with ``+`` for local changes.

    An installed package has a version instead: a repository around it is its user's. Empty where
    neither is known.
    """
    if not (PACKAGE.parent / ".git").exists():
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version("compilegate")
        return ""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
