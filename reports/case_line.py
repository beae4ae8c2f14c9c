"""The line of a case on the terminal: progress, a letter a test, the id, the figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compilegate.judging.aspects import ASPECTS
from compilegate.output.visible import visible
from compilegate.records.observation import Observation
from compilegate.reports.columns import COLUMNS, figures_of
from compilegate.reports.text import cut, duration

INDENT = "  "
#: Letters other than those of failed aspects.
OUTCOME_LETTERS = {
    ".": "passed",
    "x": "expected failure",
    "?": "inconclusive",
    "s": "skipped",
    "E": "error",
}


@dataclass(frozen=True)
class Progress:
    """How far the session is.

    Attributes:
        done: Cases that ended.
        planned: Cases in all.
        fresh: Cases that this session observed; the others come from a stored run.
        observed: Cases that are observed, whether or not their tests have ended.
        elapsed_s: Seconds since the session began.
        left: What is not observed yet, as a multiple of what the session observed. By default,
            cases count alike.
    """

    done: int
    planned: int
    fresh: int
    elapsed_s: float
    observed: int = 0
    left: float | None = None

    @property
    def position(self) -> str:
        """The number of the case: ``[ 3/12]``."""
        return f"[{self.done:>{len(str(self.planned))}}/{self.planned}]"

    def __str__(self) -> str:
        cases = self.planned - max(self.done, self.observed)
        if not cases or not self.fresh:
            return self.position
        left = cases / self.fresh if self.left is None else self.left
        return f"{self.position[:-1]}, {duration(self.elapsed_s * left)} left]"

    @property
    def width(self) -> int:
        """Characters of the longest progress of the session, so that lines align."""
        longest = f"[{self.planned}/{self.planned}, 99 min left]"
        return len(longest) if self.fresh else 0


def failure_letter(aspect: str) -> str:
    """Return the letter of a failed test: its aspect's, or ``F`` for any other test."""
    return ASPECTS[aspect].letter if aspect in ASPECTS else "F"


def legend(letters: str) -> str:
    """Return the meaning of the letters; empty if all tests passed."""
    meanings = {aspect.letter: aspect.name for aspect in ASPECTS.values()} | OUTCOME_LETTERS
    shown = sorted(set(letters) & meanings.keys() - {"."})
    return ", ".join(f"{letter} {meanings[letter]}" for letter in shown)


def case_lines(
    observation: Observation, letters: str, progress: Progress, *, width: int, id_width: int = 0
) -> list[str]:
    """Return a case in one line, or in two or three where the terminal is narrow.

    Args:
        observation: What was measured.
        letters: One letter for each of its tests.
        progress: How far the session is.
        width: Characters of a line of the terminal.
        id_width: Characters of the longest id, so that lines align.
    """
    head = f"{progress!s:<{progress.width}} {letters:<8} {observation.case:<{id_width}}"
    figures = _figures(observation)
    if len(whole := f"{head}  {next(figures)}") <= width:
        return [whole]
    head = f"{progress} {letters} {observation.case}"
    if len(head) > width:
        head = f"{progress.position} {letters} {observation.case}"
    texts = list(_figures(observation))
    room = width - len(INDENT)
    text = next((text for text in texts if len(text) <= room), cut(texts[-1], room))
    if len(head) > width:  # the id is whole, to be copied
        return [f"{progress.position} {letters}", f"{INDENT}{observation.case}", f"{INDENT}{text}"]
    return [head, f"{INDENT}{text}"]


def _figures(observation: Observation) -> Iterator[str]:
    """Yield the figures as text, the most complete form first, then shorter ones."""
    failure = observation.failure
    if failure is not None:
        what = observation.status.replace("_", " ")
        yield cut(visible(f"{what} in stage {failure.stage}: {failure.message}"), 100)
        return
    figures = figures_of(observation)
    shown = figures.shown
    complete = dict(shown)
    if "compile" in shown and figures.cold:
        complete["compile"] += " cold"
    if figures.speedup is not None:
        complete["speedup"] += f" [{figures.speedup.low:.2f}, {figures.speedup.high:.2f}]"
    yield "  ".join(f"{name} {text}" for name, text in complete.items())
    yield "  ".join(f"{name} {text}" for name, text in complete.items() if text != "0")
    yield "  ".join(f"{name} {text}" for name, text in shown.items() if text != "0")
    brief = {column.name: column.brief for column in COLUMNS}
    yield " ".join(f"{brief[name]} {text}" for name, text in shown.items() if text != "0")
