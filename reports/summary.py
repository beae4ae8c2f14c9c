"""What a person watching sees: a line as each case ends, and the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from compilegate.records.call import Checked
from compilegate.records.case import device_of
from compilegate.records.environment import Environment
from compilegate.records.observation import Observation
from compilegate.records.statistics import paired_speedup
from compilegate.records.verdict import Verdict

#: So many cases a command names that is to be copied.
_SHOWN = 6
#: So many lines tell of what could not be decided for one reason.
_TOLD = 10


@dataclass(frozen=True)
class Progress:
    """How far the session is.

    Attributes:
        done: Cases that ended.
        planned: Cases in all.
        fresh: Cases that were observed just now, not taken from a stored run.
        elapsed_s: Seconds since the session began.
    """

    done: int
    planned: int
    fresh: int
    elapsed_s: float

    def __str__(self) -> str:
        text = f"[{self.done:>{len(str(self.planned))}}/{self.planned}"
        left = self.planned - self.done
        if not left or not self.fresh:
            return f"{text}]"
        return f"{text}, {duration(self.elapsed_s / self.fresh * left)} left]"

    @property
    def width(self) -> int:
        """Characters that it takes, so that lines align."""
        longest = f"[{self.planned}/{self.planned}, 99 min left]"
        return len(longest) if self.fresh else 0


def count(number: int, what: str) -> str:
    """A number of things: ``1 case``, ``2 cases``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Seconds as a person says them: ``40 s``, ``3 min``, ``2 h 5 min``."""
    if seconds < 99:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def case_line(observation: Observation, letters: str, progress: Progress, id_width: int = 0) -> str:
    """One case in one line: progress, letters of its tests, id, figures."""
    figures = "  ".join(_figures(observation))
    return f"{progress!s:<{progress.width}} {letters:<8} {observation.case:<{id_width}}  {figures}"


def _figures(observation: Observation) -> list[str]:
    failure = observation.failure
    if failure is not None:
        what = observation.status.replace("_", " ")
        return [f"{what} in stage {failure.stage}: {failure.message}"[:100]]
    figures = [f"forward {_worst(observation, 'outputs'):.1g}"]
    if any(call.gradients.errors for call in observation.calls):
        figures.append(f"gradients {_worst(observation, 'gradients'):.1g}")
    capture = observation.capture
    if capture is not None:
        figures.append(f"breaks {len(capture.breaks)}")
        figures.append(f"recompiles {sum(bool(c.reason) for c in capture.compilations)}")
    if observation.compile_time is not None:
        cache = "cold" if observation.cold else "warm"
        figures.append(f"compile {observation.compile_time.total_s:.1f} s {cache}")
    if observation.timing is not None:
        seen = paired_speedup(observation.timing.eager_ns, observation.timing.compiled_ns)
        figures.append(f"speedup {seen.value:.2f} [{seen.low:.2f}, {seen.high:.2f}]")
    if observation.memory is not None and observation.memory.eager_peak_bytes:
        figures.append(f"memory {observation.memory.ratio:.2f}")
    return figures


def _worst(observation: Observation, group: str) -> float:
    """Largest root mean square error of a compiled tensor, of those that eager computes well."""
    checked: list[Checked] = [getattr(call, group) for call in observation.calls]
    errors = [e for c in checked for e in c.errors if e.scale and e.eager_rms <= 0.1]
    return max((error.compiled_rms for error in errors), default=0.0)


@dataclass(frozen=True)
class Outcome:
    """What a session has come to, for its summary.

    Attributes:
        environment: Where it was observed.
        planned: Cases in all.
        observations: By case id.
        verdicts: By case id.
        wall_s: Seconds from begin to end.
        made: What was observed just now, under another PyTorch, too; none of it from a stored run.
        workers: How many observed cases at a time.
        unfinished_s: Seconds of workers on what had not ended when the session was stopped.
    """

    environment: Environment | None
    planned: int
    observations: Mapping[str, Observation]
    verdicts: Mapping[str, Sequence[Verdict]]
    wall_s: float
    made: Sequence[Observation] = ()
    workers: int = 1
    unfinished_s: float = 0.0


@dataclass(frozen=True)
class Summary:
    """A title and lines under it."""

    title: str
    lines: tuple[str, ...]


def summarize(outcome: Outcome) -> Summary:
    """The end of a session: how many cases are good, what failed, where the time went."""
    failed = {c for c, some in outcome.verdicts.items() if any(v.outcome == "failed" for v in some)}
    counts = Counter(v.outcome for some in outcome.verdicts.values() for v in some)
    notable = [f"{len(failed)} failed" if failed else "none failed"]
    if inconclusive := counts["inconclusive"]:
        notable.append(count(inconclusive, "inconclusive verdict"))
    if expected := counts["expected_failure"]:
        notable.append(count(expected, "expected failure"))
    missing = outcome.planned - len(outcome.observations)
    if missing:
        notable.append(f"{missing} not observed")
    place = where(outcome.environment, outcome.observations)
    title = f"compilegate: {place}{count(outcome.planned, 'case')}, {', '.join(notable)}"
    told = (*_listed(outcome, "failed"), *_listed(outcome, "inconclusive"), *_again(outcome))
    return Summary(title, (*told, *_time(outcome)))


def where(environment: Environment | None, case_ids: Iterable[str]) -> str:
    """The PyTorch and what it ran on, of some cases, with a colon; empty where it is not known."""
    if environment is None:
        return ""
    kinds = sorted({device_of(case_id) for case_id in case_ids})
    names = [device.name for kind in kinds if (device := environment.device(kind))]
    version = environment.versions.get("torch", "?").partition("+")[0]
    return f"torch {version}{' on ' * bool(names)}{' and '.join(names)}: "


def _listed(outcome: Outcome, kind: Literal["failed", "inconclusive"]) -> list[str]:
    """What failed, or cannot be told, under its aspects; cases that are alike share a line."""
    aspects: dict[tuple[str, str], list[str]] = {}
    for case_id, verdicts in outcome.verdicts.items():
        for verdict in verdicts:
            if verdict.outcome == kind:
                aspects.setdefault((case_id, verdict.summary), []).append(verdict.aspect)
    alike: dict[str, dict[tuple[str, str], list[str]]] = {}
    for (case_id, summary), (first, *others) in aspects.items():
        model, _, setting = case_id.partition("-")
        heading = f"{first} and {count(len(others), 'more aspect')}" if others else first
        heading += ", inconclusive" * (kind == "inconclusive")
        alike.setdefault(heading, {}).setdefault((model, summary), []).append(setting)
    lines = []
    for heading, entries in alike.items():
        lines.append(f"{heading}:")
        told = []
        for (model, summary), settings in entries.items():
            more = f" and {len(settings) - 1} more" if len(settings) > 1 else ""
            told.append(f"  {model}-{settings[0]}{more}: {summary}")
        if kind == "inconclusive" and len(told) > _TOLD:  # a busy machine does it to all
            told[_TOLD:] = [
                f"  … and {len(told) - _TOLD} more (python -m compilegate html RUN shows each)"
            ]
        lines += told
    return lines


def _again(outcome: Outcome) -> list[str]:
    """How to tell what was disturbed or came too close; a blind tensor stays blind."""
    cases = [
        f"--cases {case_id}"
        for case_id, verdicts in outcome.verdicts.items()
        if any(v.outcome == "inconclusive" and not v.summary.startswith("blind") for v in verdicts)
    ]
    if not cases:
        return []
    more = " …" if len(cases) > _SHOWN else ""
    return [f"observe again with nothing beside: pytest suites/ {' '.join(cases[:_SHOWN])}{more}"]


def _time(outcome: Outcome) -> list[str]:
    """The share of time that is neither compiling nor running models."""
    if not outcome.made:
        return []
    rest: dict[str, float] = {}
    useful = other = 0.0
    for observation in outcome.made:
        for name, seconds in observation.spent_s.items():
            if name in ("compile", "warm_toolchain", "run"):
                useful += seconds
            else:
                other += seconds
                rest[name] = rest.get(name, 0.0) + seconds
    all_s = outcome.wall_s * outcome.workers - outcome.unfinished_s
    several = f" times {outcome.workers} workers" if outcome.workers > 1 else ""
    whole = f"time: {duration(outcome.wall_s)}{several}, "
    if outcome.unfinished_s >= 1.0:
        whole += f"{duration(outcome.unfinished_s)} of it for what did not end; of the rest"
    else:
        whole += "of which"
    left = "starting, waiting and judging" if several else "starting and judging"
    rest[left] = max(all_s - useful - other, 0.0)
    shares = {name: seconds / all_s for name, seconds in rest.items()}
    parts = [f"{name} {share:.0%}" for name, share in shares.items() if share >= 0.005]
    share = max(1 - useful / all_s, 0.0)
    return [f"{whole} {share:.0%} is neither compiling nor running models ({', '.join(parts)})"]
