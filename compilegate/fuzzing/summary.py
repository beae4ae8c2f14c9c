"""The summary of a run, as lines of text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compilegate.fuzzing.outcome import SILENT
from compilegate.fuzzing.script import stage_named
from compilegate.fuzzing.state import Finding, State
from compilegate.records.wording import counted


def progress_line(state: State, seconds: float) -> str:
    """Return what was done so far in one line."""
    total = sum(state.words.values())
    words = ", ".join(f"{count} {word}" for word, count in state.words.most_common())
    silent = sum(one.kind in SILENT for one in state.findings)
    found = f"{counted(len(state.findings), 'finding')}, {silent} of them silent"
    done = f"{counted(total, 'program')} ({words or 'none yet'})"
    return f"{seconds / 60:.1f} min: {done}; {found}"


def speed_lines(state: State) -> Iterator[str]:
    """Yield how many programs a worker judges in an hour, by backend."""
    for backend, count in sorted(state.by_backend.items()):
        seconds = state.seconds[backend]
        yield (
            f"{backend}: {counted(count, 'program')} in {seconds / 60:.1f} min of one worker, "
            f"{3600 * count / seconds if seconds else 0:.0f} an hour"
        )


def rows(state: State) -> list[dict[str, Any]]:
    """Return the findings as a table, silent ones first."""
    found = sorted(state.findings, key=lambda one: (one.kind not in SILENT, one.index))
    return [_row(one, state.again[one.index]) for one in found]


def _row(one: Finding, again: int) -> dict[str, Any]:
    return {
        "finding": one.index,
        "kind": one.kind,
        "stage": stage_named(one.stage),
        "operators": ", ".join(one.program.operators),
        "program": one.program.name,
        "again": again,
        "alone": "yes" if one.alone else "no",
        "what": one.line[:160],
    }


def markdown(state: State) -> str:
    """Return the summary as Markdown."""
    lines = ["# Findings", "", *(f"- {line}" for line in speed_lines(state))]
    words = ", ".join(f"{count} {word}" for word, count in state.words.most_common())
    lines += [f"- programs: {words}", ""]
    table = rows(state)
    if table:
        lines += ["| " + " | ".join(table[0]) + " |", "|" + " --- |" * len(table[0])]
        for row in table:
            cells = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in row.values())
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
