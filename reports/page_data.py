"""What an HTML page holds of a run, or of two compared: a row a case, and its details.

Rows are small and there from the start. Details are most of the page, and nobody opens them all, so
they are compressed in chunks that the page inflates when one is opened.
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

from compilegate.records.observation import Capture
from compilegate.records.run import Header
from compilegate.reports.case_figures import GRAVITY, Figures, Standing, figures_of
from compilegate.runs.archive import Seen
from compilegate.runs.digest import GROUPS, Digest
from compilegate.runs.reproduction import command, zoos_in
from compilegate.upgrade.comparison import CLASSES, CaseComparison
from compilegate.upgrade.decision import version
from compilegate.upgrade.proposals import proposals

#: Cases whose details are compressed together.
CHUNK = 64
#: Tensors of a case that its details show, those furthest beyond eager's own error first.
TENSORS = 12
#: Last lines of a traceback or of the process's output.
LINES = 40
#: What a case of one run came to; of a comparison it is its class.
OUTCOMES = (*GRAVITY, "not judged", "not observed")
#: The columns of a row, in order.
COLUMNS = (
    "case",
    "kind",
    "speedup",
    "low",
    "high",
    "compile_s",
    "cold",
    "memory",
    "breaks",
    "recompiles",
    "forward",
    "gradients",
    "reason",
    "speedup_before",
    "compile_s_before",
)


def number(value: float | None) -> float | int | str | None:
    """A number as JSON has it, with the digits of a run file; what is not finite as text."""
    if value is None or isinstance(value, int):
        return value
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def encode(value: Any) -> str:
    """JSON that can stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


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
        """Compress what is left."""
        if self._open:
            self._compress()

    def _compress(self) -> None:
        text = json.dumps(self._open, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        self.chunks.append(base64.b64encode(zlib.compress(text.encode(), 6)).decode())
        self._open = []


def row_of_run(case: str, seen: Seen) -> list[Any]:
    """The row of a case of one run."""
    standing = Standing.of(seen)
    kind = standing.outcome or "not judged" if standing.observed else "not observed"
    reason = next(
        (f"{v.aspect}: {v.summary}" for v in seen.verdicts.values() if v.outcome == kind), ""
    )
    shown = reason if kind not in ("passed", "skipped") else ""
    return [case, OUTCOMES.index(kind), *_figures(standing.figures), shown, None, None]


def row_of_comparison(
    item: CaseComparison, before: Seen, now: Seen, *, times_compare: bool = True
) -> list[Any]:
    """The row of a case in two runs: the figures are the candidate's.

    Args:
        item: What became of it.
        before: What the baseline holds of it.
        now: What the candidate holds of it.
        times_compare: Whether both ran on the same machine; if not, no earlier time is shown.
    """
    figures = figures_of(now.digest) if now.digest else Figures()
    earlier = figures_of(before.digest) if before.digest and times_compare else Figures()
    return [
        item.case,
        CLASSES.index(item.kind),
        *_figures(figures),
        item.reason,
        number(earlier.speedup.value if earlier.speedup else None),
        number(earlier.compile_s),
    ]


def _figures(found: Figures) -> Iterator[Any]:
    speedup = found.speedup
    yield number(speedup.value if speedup else None)
    yield number(speedup.low if speedup else None)
    yield number(speedup.high if speedup else None)
    yield number(found.compile_s)
    yield int(found.cold)
    yield number(found.memory_ratio)
    yield found.breaks
    yield found.recompilations
    yield number(found.forward)
    yield number(found.gradients)


def details(
    case: str, sides: Sequence[tuple[Header, Seen]], item: CaseComparison | None = None
) -> dict[str, Any]:
    """All that the page tells of a case when it is opened.

    Args:
        case: Its id.
        sides: Each run's header, and what it holds of the case.
        item: What became of it, where two runs are compared.
    """
    told: dict[str, Any] = {"case": case, "sides": [_side(*side) for side in sides]}
    if item is not None:
        told["changes"] = [
            [change.effect, change.aspect, change.text, list(change.details)]
            for change in item.changes
        ]
        told["proposals"] = proposals(item)
    return told


def _side(header: Header, seen: Seen) -> dict[str, Any]:
    side: dict[str, Any] = {"torch": version(header), "planned": seen.planned}
    side["verdicts"] = [[v.aspect, v.outcome, v.summary] for v in seen.verdicts.values()]
    digest = seen.digest
    if digest is None:
        return side
    failure, timing, memory = digest.failure, digest.timing, digest.memory
    side |= {
        "status": digest.status,
        "facts": _facts(digest),
        "command": command(digest, zoos_in(header.arguments)),
        "tensors": list(_tensors(digest)),
        "tensor_count": sum(len(getattr(c, g).errors) for c in digest.calls for g in GROUPS),
    }
    if failure is not None:
        side["failure"] = {
            "stage": failure.stage,
            "kind": failure.kind,
            "message": failure.message,
            "traceback": _last(failure.traceback),
            "output": _last(failure.output),
        }
    if digest.capture is not None:
        side["capture"] = _capture(digest.capture)
    if time := digest.compile_time:
        phases = (time.dynamo_s, time.aot_s, time.inductor_s, time.codegen_s)
        side["compile_s"] = [number(time.total_s), *map(number, phases)]
    if timing is not None:
        side["eager_ns"] = [number(value) for value in timing.eager_ns]
        side["compiled_ns"] = [number(value) for value in timing.compiled_ns]
        speedup = figures_of(digest).speedup
        if speedup is not None:
            side["speedup"] = [number(v) for v in (speedup.value, speedup.low, speedup.high)]
    if memory is not None:
        side["memory_bytes"] = [memory.eager_peak_bytes, memory.compiled_peak_bytes]
    if digest.energy is not None and not digest.energy.unavailable:
        side["energy_j"] = [number(digest.energy.eager_j), number(digest.energy.compiled_j)]
    return side


def _facts(digest: Digest) -> list[list[str]]:
    """What a reader may want to know besides, name and value."""
    cache = "empty" if digest.cold else "warm"
    facts = [["backend", digest.backend], ["seed", str(digest.seed)], ["compile cache", cache]]
    facts.append(["parameters", f"{digest.parameters:,}"])
    if digest.reference:
        facts.append(["reference", digest.reference])
    if digest.tf32:
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
            [item.call + 1, str(item.code), item.reason]
            for item in capture.compilations
            if item.reason
        ],
        "limits": list(capture.limits),
        "cudagraph_skips": list(capture.cudagraph_skips),
    }


def _tensors(digest: Digest) -> Iterator[list[Any]]:
    """The tensors furthest beyond eager's own error: group, call, name and figures."""
    every = [
        (group, index + 1, error)
        for index, call in enumerate(digest.calls)
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
    """What a run was observed with, as a reader wants to see it."""
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
