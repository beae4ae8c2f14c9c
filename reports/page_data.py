"""The data of an HTML page: a row for each case, and its details.

Rows are small, and the page reads them at once. Details are most of the page, and nobody opens them
all, so they are compressed in chunks; the page inflates a chunk when a case of it is opened.
"""

from __future__ import annotations

import base64
import json
import math
import shlex
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compilegate.output.visible import visible_lines
from compilegate.records.environment import Environment
from compilegate.records.observation import Capture
from compilegate.records.run import Header
from compilegate.reports.case_result import GRAVITY, CaseResult
from compilegate.reports.columns import COLUMNS, Column, Figures, figures_of
from compilegate.runs.archive import CaseRecord
from compilegate.runs.reproduction import command, files_of
from compilegate.runs.slim import GROUPS, SlimObservation
from compilegate.upgrade.case_comparison import CLASSES, CaseComparison
from compilegate.upgrade.decision import version
from compilegate.upgrade.proposals import proposals

#: Cases whose details are compressed together.
CHUNK = 64
#: Tensors of a case that its details show, those furthest beyond eager's own error first.
TENSORS = 12
#: Last lines of a traceback or of the process's output.
LINES = 40
#: The result of a case of one run; in a comparison a case has a class.
OUTCOMES = (*GRAVITY, "not judged", "not observed")
#: The columns whose change between two runs is shown.
CHANGES = tuple(column.name for column in COLUMNS if column.has_change)
#: The fields of a row, in order.
FIELDS = (
    "case",
    "kind",
    "reason",
    "low",
    "high",
    "cold",
    *(column.name for column in COLUMNS),
    *(f"{name}_before" for name in CHANGES),
)


def number(value: float | None) -> float | int | str | None:
    """Return a number for JSON, with the digits of a run file; NaN and infinities as text."""
    if value is None or isinstance(value, int):
        return value
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def encode(value: Any) -> str:
    """Return JSON that does not end the script element that holds it."""
    text = _json(value)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _json(value: Any) -> str:
    return json.dumps(_cleaned(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _cleaned(value: Any) -> Any:
    """Return data in which every text is cleaned: the page shows it with all its characters."""
    match value:
        case str():
            return visible_lines(value)
        case list() | tuple():
            return [_cleaned(item) for item in value]
        case dict():
            return {visible_lines(key): _cleaned(item) for key, item in value.items()}
    return value


@dataclass
class PageData:
    """Collects the cases of a page.

    Attributes:
        rows: What the tables and charts show.
        chunks: Compressed details.
    """

    rows: list[list[Any]] = field(default_factory=list)
    chunks: list[str] = field(default_factory=list)
    _open: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: list[Any], details: dict[str, Any]) -> None:
        """Add a case."""
        self.rows.append(row)
        self._open.append(details)
        if len(self._open) == CHUNK:
            self._compress()

    def close(self) -> None:
        """Compress the last cases."""
        if self._open:
            self._compress()

    def _compress(self) -> None:
        compressed = zlib.compress(_json(self._open).encode(), 6)
        self.chunks.append(base64.b64encode(compressed).decode())
        self._open = []


def column(shown: Column) -> dict[str, Any]:
    """Return the part of a column that the page's script needs."""
    return {
        "name": shown.name,
        "unit": shown.unit,
        "about": shown.about,
        "moreIsBetter": shown.more_is_better,
        "hasChange": shown.has_change,
    }


def row_of_run(case: str, record: CaseRecord) -> list[Any]:
    """Return the row of a case of one run."""
    result = CaseResult.of(record)
    kind = result.outcome or "not judged" if result.observed else "not observed"
    reason = next(
        (f"{v.aspect}: {v.summary}" for v in record.verdicts.values() if v.outcome == kind), ""
    )
    shown = reason if kind not in ("passed", "skipped") else ""
    return [case, OUTCOMES.index(kind), shown, *_figures(result.figures), *(None for _ in CHANGES)]


def row_of_comparison(
    item: CaseComparison, before: CaseRecord, now: CaseRecord, *, times_compare: bool = True
) -> list[Any]:
    """Return the row of a case in two runs: the figures are the candidate's.

    Args:
        item: How the case compares.
        before: What the baseline holds of it.
        now: What the candidate holds of it.
        times_compare: Whether both ran on the same machine; if not, no earlier time is shown.
    """
    figures = figures_of(now.observation) if now.observation else Figures({})
    earlier = (
        figures_of(before.observation) if before.observation and times_compare else Figures({})
    )
    return [
        item.case,
        CLASSES.index(item.kind),
        item.reason,
        *_figures(figures),
        *(number(earlier.values.get(name)) for name in CHANGES),
    ]


def _figures(found: Figures) -> Iterator[Any]:
    speedup = found.speedup
    yield number(speedup.low if speedup else None)
    yield number(speedup.high if speedup else None)
    yield int(found.cold)
    for column in COLUMNS:
        yield number(found.values.get(column.name))


def details(
    case: str, sides: Sequence[tuple[Header, CaseRecord]], item: CaseComparison | None = None
) -> dict[str, Any]:
    """Return all that the page shows of a case when it is opened.

    Args:
        case: Its id.
        sides: Each run's header, and what it holds of the case.
        item: How the case compares, where there are two runs.
    """
    shown: dict[str, Any] = {"case": case, "sides": [_side(*side) for side in sides]}
    if item is not None:
        shown["changes"] = [
            [change.effect, change.aspect, change.text, list(change.details)]
            for change in item.changes
        ]
        shown["proposals"] = proposals(item)
    return shown


def _side(header: Header, record: CaseRecord) -> dict[str, Any]:
    side: dict[str, Any] = {"torch": version(header), "planned": record.planned}
    side["verdicts"] = [[v.aspect, v.outcome, v.summary] for v in record.verdicts.values()]
    observation = record.observation
    if observation is None:
        return side
    failure, timing, memory = observation.failure, observation.timing, observation.memory
    side |= {
        "status": observation.status,
        "facts": _facts(observation),
        "command": command(observation, files_of(header)),
        "tensors": list(_tensors(observation)),
        "tensor_count": sum(len(getattr(c, g).errors) for c in observation.calls for g in GROUPS),
    }
    if failure is not None:
        side["failure"] = {
            "stage": failure.stage,
            "kind": failure.kind,
            "message": failure.message,
            "traceback": _last(failure.traceback),
            "output": _last(failure.output),
        }
    if observation.capture is not None:
        side["capture"] = _capture(observation.capture)
    if time := observation.compile_time:
        phases = (time.dynamo_s, time.aot_s, time.inductor_s, time.codegen_s)
        side["compile_s"] = [number(time.total_s), *map(number, phases)]
    if timing is not None:
        side["eager_ns"] = [number(value) for value in timing.eager_ns]
        side["compiled_ns"] = [number(value) for value in timing.compiled_ns]
        speedup = figures_of(observation).speedup
        if speedup is not None:
            side["speedup"] = [number(v) for v in (speedup.value, speedup.low, speedup.high)]
    if memory is not None:
        side["memory_bytes"] = [memory.eager_peak_bytes, memory.compiled_peak_bytes]
    if observation.energy is not None and not observation.energy.unavailable:
        side["energy_j"] = [
            number(observation.energy.eager_j),
            number(observation.energy.compiled_j),
        ]
    return side


def _facts(observation: SlimObservation) -> list[list[str]]:
    """Return further facts of a case, name and value."""
    cache = "empty" if observation.cold else "warm"
    facts = [
        ["backend", observation.backend],
        ["seed", str(observation.seed)],
        ["compile cache", cache],
    ]
    facts.append(["parameters", f"{observation.parameters:,}"])
    if observation.reference:
        facts.append(["reference", observation.reference])
    if observation.tf32:
        facts.append(["TF32", "on"])
    return facts


def _capture(capture: Capture) -> dict[str, Any]:
    found = [*capture.breaks, *(f for f in capture.fallbacks if f not in capture.breaks)]
    return {
        "graphs": capture.graphs,
        "breaks": [
            [item.reason, item.id, str(item.place or ""), item.place.owner if item.place else ""]
            for item in found
        ],
        "recompiles": [
            [item.call + 1, str(item.code), item.guard]
            for item in capture.compilations
            if item.reason
        ],
        "limits": list(capture.limits),
        "cudagraph_skips": list(capture.cudagraph_skips),
    }


def _tensors(observation: SlimObservation) -> Iterator[list[Any]]:
    """Yield the tensors furthest beyond eager's own error: group, call, name and figures."""
    every = [
        (group, index + 1, error)
        for index, call in enumerate(observation.calls)
        for group in GROUPS
        for error in getattr(call, group).errors
    ]
    every.sort(key=lambda found: _beyond(found[2].compiled_rms, found[2].eager_rms), reverse=True)
    for group, call, error in every[:TENSORS]:
        figures = error.eager_rms, error.compiled_rms, error.eager_max, error.compiled_max
        yield [group, call, error.name, error.dtype, number(error.scale), *map(number, figures)]


def _beyond(compiled: float, eager: float) -> float:
    return math.inf if math.isnan(compiled) else compiled / (eager + 1e-12)


def _last(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-LINES:])


def environment(header: Header) -> Mapping[str, str]:
    """Return a run's environment, by name."""
    found = header.environment
    devices = (
        f"{d.kind} {d.name}{f', driver {d.driver}' if d.driver else ''}" for d in found.devices
    )
    return {
        "torch": found.versions.get("torch", "?"),
        "devices": "; ".join(devices),
        "versions": ", ".join(
            f"{name} {v}" for name, v in found.versions.items() if name != "torch"
        ),
        **_inventory(found),
        "python": found.python,
        "compiler": found.compiler,
        "CUDA": found.cuda or "none",
        "created": header.created,
        "seed": str(header.seed),
        "tier": ", ".join(f"{tier} on {device}" for device, tier in header.tier.items()),
        "backend": header.backend,
        "arguments": shlex.join(header.arguments),
        "compilegate": header.revision or "unknown revision",
    }


def _inventory(environment: Environment) -> dict[str, str]:
    """Return everything that a run records of its environment, in groups; nothing of old runs."""
    if (found := environment.inventory) is None:
        return {}
    groups = {
        "libraries": found.libraries,
        "variables": found.variables,
        "configuration": found.configuration,
        "machine": found.machine,
        "distributions": found.distributions,
    }
    return {
        group: ", ".join(f"{name} {value}" for name, value in items.items()) or "none"
        for group, items in groups.items()
    }
