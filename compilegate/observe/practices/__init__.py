"""What people do with a compiled model other than calling it: one module a practice."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compilegate.observe.practices import checkpoints, hazards
from compilegate.observe.practices.bench import Bench
from compilegate.records.practice import Practice, PracticeName

#: What observes each practice.
OBSERVERS: Mapping[PracticeName, Callable[[Bench], Practice]] = {
    "checkpoints": checkpoints.observe,
    "hazards": hazards.observe,
}
