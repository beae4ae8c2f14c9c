"""Merges the shards of one run, which must have one environment, seed and tier."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from compilegate.records import environment_changes
from compilegate.records.environment import changes
from compilegate.records.run import SCHEMA, Closing, Header
from compilegate.runs.archive import Archive
from compilegate.runs.reader import RunError
from compilegate.runs.writer import Writer


def merge(paths: Sequence[Path], target: Path) -> tuple[int, list[str]]:
    """Write one run file from several.

    The file gets a closing record only if no shard is missing, and every case that any shard
    planned was observed.

    Args:
        paths: The shards.
        target: The file to make.

    Returns:
        The number of planned cases, and what is missing: cases that none observed, and shards.

    Raises:
        RunError: A shard is no run file, differs in its environment or options, or holds a case
            that another shard holds; or the target exists or cannot be written.
    """
    if target.exists():
        raise RunError(f"{target} exists: give another --output, or remove it first")
    if target.suffix == ".gz":
        raise RunError(f"run files are written as text: give --output {target.with_suffix('')}")
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise RunError(f"{twice} was named twice")
    with ExitStack() as opened:
        shards = [opened.enter_context(Archive(path)) for path in paths]
        for shard in shards[1:]:
            _refuse_another(shards[0], shard)
        owner = _owners(shards)
        absent = _absent([shard.header.shard for shard in shards])
        planned = tuple(dict.fromkeys(case for shard in shards for case in shard.header.planned))
        header = replace(
            shards[0].header,
            schema=SCHEMA,
            created=min(shard.header.created for shard in shards),
            planned=planned,
            shard=", ".join(shard.header.shard for shard in shards) if absent else "",
            # The baselines of paired shards must be merged, too, under this name.
            baseline=f"{target.stem}.baseline" if shards[0].header.baseline else "",
        )
        missing = [f"shard {one}" for one in absent]
        missing += [case for case in planned if case not in owner]
        for case, shard in owner.items():
            shard.check(case)
        writer = Writer.create(target, "give another --output")
        writer.write(header)
        for case, shard in owner.items():
            for line in shard.raw(case):
                writer.write(line)
        if not missing:
            wall_s = max(shard.closing.wall_s if shard.closing else 0.0 for shard in shards)
            writer.write(Closing(cases=len(planned), wall_s=wall_s))
        writer.close()
    if writer.trouble:
        target.unlink(missing_ok=True)  # a part of the shards would look like a run
        raise RunError(f"cannot write {writer.trouble}; no file was made")
    return len(planned), missing


def _absent(names: Sequence[str]) -> list[str]:
    """Return the shards that are missing, by what the others are called: ``1/2``."""
    given = [name.partition("/") for name in names if name]
    of = {total for _, _, total in given}
    numbers = {int(number) for number, _, _ in given}
    return [
        f"{number}/{total}"
        for total in sorted(of)
        for number in range(1, int(total) + 1)
        if number not in numbers
    ]


def _owners(shards: Sequence[Archive]) -> dict[str, Archive]:
    """Return the shard that observed each case."""
    owner: dict[str, Archive] = {}
    for shard in shards:
        for case in shard.cases:
            if not shard.observed(case):
                continue
            if case in owner:
                raise RunError(
                    f"{case} was observed in {owner[case].path} and again in {shard.path}: shards "
                    "must not overlap; leave one of them out"
                )
            owner[case] = shard
    return owner


def _refuse_another(first: Archive, other: Archive) -> None:
    ours, theirs = first.header, other.header
    differences = environment_changes.refusals(ours.environment, theirs.environment)
    if differences := [*differences, *changes(_conditions(ours), _conditions(theirs))]:
        raise RunError(
            f"{first.path} and {other.path} are not shards of one run: {'; '.join(differences)}. "
            "Merge runs of one environment, seed and tier; use compare for others"
        )


def _conditions(header: Header) -> dict[str, Any]:
    """Return what must be equal in all shards, in addition to their environments."""
    return {
        "seed": header.seed,
        "tier": header.tier,
        "backend": header.backend,
        "TF32": "on" if header.tf32 else "off",
        "compilegate": header.revision or "of unknown revision",
    }
