"""Judges a cell: whether compilegate catches the fault, and whether there is a fault at all."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from compilegate.records.call import Checked
from compilegate.records.observation import Observation
from compilegate.records.verdict import Verdict
from tests.faults.matrix.kinds import Kind

Word = Literal["caught", "missed", "not applicable", "undecided"]

#: A change that is relatively smaller comes from the order in which a GPU adds, not from a fault.
NO_CHANGE = 2e-6


@dataclass(frozen=True)
class Sound:
    """What the twin without a fault showed.

    Attributes:
        case: The case of the shipped zoo.
        outcomes: The outcome of each aspect.
        trouble: Why it was not observed to its end; empty if it was.
        captured: What was captured, in figures that a fault of capture changes.
        draws: Whether a call draws random numbers.
        errors: Eager's own error by group of tensors: the root mean square, and the largest.
    """

    case: str
    outcomes: dict[str, str]
    trouble: str = ""
    captured: tuple[int, ...] = ()
    draws: bool = False
    errors: dict[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, case_id: str, seen: Observation, verdicts: Iterable[Verdict]) -> Sound:
        """Return what an observation of the twin showed."""
        return cls(
            case_id,
            {verdict.aspect: verdict.outcome for verdict in verdicts},
            _trouble(seen),
            captured(seen),
            seen.draws,
            {
                "outputs": _errors(call.outputs for call in seen.calls),
                "gradients": _errors(call.gradients for call in seen.calls),
            },
        )

    @property
    def failed(self) -> list[str]:
        """The aspects in which the twin failed."""
        return [aspect for aspect, outcome in self.outcomes.items() if outcome == "failed"]


@dataclass(frozen=True)
class Filled:
    """A cell with its verdict.

    Attributes:
        kind: The name of the kind of fault.
        case: The case of the shipped zoo.
        verdict: Whether the fault was caught.
        aspects: The aspects that failed, and not in the twin.
        why: The reason of a verdict other than *caught*; what failed, of a caught fault.
        reports: What the plant reported, each line once.
        rms: How much a result changed at most: root mean square, relative to its scale.
        largest: The largest change of an element, relative to that scale.
        seconds: How long it took to observe the case with the fault.
    """

    kind: str
    case: str
    verdict: Word
    aspects: tuple[str, ...] = ()
    why: str = ""
    reports: tuple[str, ...] = ()
    rms: float = 0.0
    largest: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Planted:
    """What a process with a fault showed.

    Attributes:
        observation: The observation.
        verdicts: The suites' verdicts.
        reports: What the plant reported.
        changes: How far the results of compiled code were from the twin's.
    """

    observation: Observation
    verdicts: Sequence[Verdict]
    reports: Sequence[str]
    changes: Sequence[dict[str, Any]]


def captured(seen: Observation) -> tuple[int, ...]:
    """Return the numbers of graphs, breaks, compilations, limits, fallbacks and failures."""
    made = seen.capture
    if made is None:
        return ()
    failures = sum(bool(compilation.failure) for compilation in made.compilations)
    lists = (made.breaks, made.compilations, made.limits, made.fallbacks)
    return (made.graphs, *map(len, lists), failures)


def judge(kind: Kind, sound: Sound, planted: Planted) -> Filled:
    """Judge a cell."""
    word, aspects, why = _verdict(kind, sound, planted)
    reports = tuple(dict.fromkeys(planted.reports))
    rms = max((change["rms"] for change in planted.changes), default=0.0)
    largest = max((change["largest"] for change in planted.changes), default=0.0)
    return Filled(kind.name, sound.case, word, aspects, why, reports, rms, largest)


def _verdict(kind: Kind, sound: Sound, planted: Planted) -> tuple[Word, tuple[str, ...], str]:
    trouble = f"the twin: {sound.trouble}" if sound.trouble else _trouble(planted.observation)
    if trouble:
        return "undecided", (), trouble
    failed = {v.aspect: v.summary for v in planted.verdicts if v.outcome == "failed"}
    new = {aspect: text for aspect, text in failed.items() if aspect not in sound.failed}
    if idle := _idle(kind, sound, planted):
        if new:
            return "undecided", tuple(new), f"{idle}, but: {next(iter(new.values()))}"
        return "not applicable", (), idle
    if new:
        return "caught", tuple(new), next(iter(new.values()))
    return _uncaught(kind, sound, planted)


def _uncaught(kind: Kind, sound: Sound, planted: Planted) -> tuple[Word, tuple[str, ...], str]:
    if small := _below_rounding(kind, sound, planted):
        return "not applicable", (), small
    unsure = [v for v in planted.verdicts if v.outcome == "inconclusive"]
    unsure = [v for v in unsure if sound.outcomes.get(v.aspect) != "inconclusive"]
    if unsure:
        return "undecided", tuple(v.aspect for v in unsure), f"inconclusive: {unsure[0].summary}"
    if sound.failed:
        return "undecided", (), f"the twin fails, too: {', '.join(sound.failed)}"
    memory = [v.summary for v in planted.verdicts if v.aspect == "memory"]
    return "missed", (), memory[0] if kind.group == "memory" and memory else _size(sound, planted)


def _trouble(seen: Observation) -> str:
    """Return why a case was not observed to its end; empty if it was."""
    failure = seen.failure
    if failure is None:
        return ""
    return f"{seen.status} in stage {failure.stage}: {failure.kind}: {failure.message}"


def _idle(kind: Kind, sound: Sound, planted: Planted) -> str:
    """Return why there is no fault: the plant changed nothing. Empty if it did."""
    if kind.part == "dropout" and not sound.draws:
        return "the model draws no random numbers"
    if not planted.reports:
        return "the plant found nothing to change"
    if _took_effect(kind, sound, planted):
        return ""
    return {
        "values": "all results of compiled code are those of the twin",
        "layout": "the layout of all results is that of the twin",
        "capture": "the graphs, breaks and compilations are those of the twin",
    }[kind.effect]


def _took_effect(kind: Kind, sound: Sound, planted: Planted) -> bool:
    if kind.effect == "capture":
        return captured(planted.observation) != sound.captured
    if kind.effect == "layout":
        return any(change["layout"] for change in planted.changes)
    return kind.effect == "report" or any(map(_is_change, planted.changes))


def _is_change(change: dict[str, Any]) -> bool:
    return change["largest"] > NO_CHANGE or change["layout"] or change["generator"]


def _below_rounding(kind: Kind, sound: Sound, planted: Planted) -> str:
    """Return by how much a fault changes less than eager's rounding does; empty if more."""
    if kind.effect != "values" or not planted.changes:
        return ""
    for change in planted.changes:
        rms, largest = sound.errors[_group(change)]
        is_small = change["rms"] <= rms and change["largest"] <= largest
        if not is_small or change["layout"] or change["generator"]:
            return ""
    return f"below eager's own rounding: {_size(sound, planted)}"


def _group(change: dict[str, Any]) -> str:
    return "gradients" if change["result"].startswith("gradients") else "outputs"


def _size(sound: Sound, planted: Planted) -> str:
    """Return the largest change of outputs and of gradients, each next to eager's error."""
    texts = []
    for group, (rms, largest) in sound.errors.items():
        of = [change for change in planted.changes if _group(change) == group]
        if of:
            most = max(of, key=lambda change: change["rms"])
            texts.append(
                f"{group} change by {most['rms']:.1e} (largest {most['largest']:.1e}), eager errs "
                f"by {rms:.1e} (largest {largest:.1e})"
            )
    return "; ".join(texts)


def _errors(groups: Iterable[Checked]) -> tuple[float, float]:
    """Return eager's error of the middle tensor: the root mean square, and the largest."""
    errors = [error for group in groups for error in group.errors if not error.always_zero]
    if not errors:
        return 0.0, 0.0
    return (
        statistics.median(error.eager_rms for error in errors),
        statistics.median(error.eager_max for error in errors),
    )
