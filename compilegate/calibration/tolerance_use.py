"""Prints how much of each tolerance healthy runs use.

This table is the basis of the constants in :mod:`compilegate.judging.tolerances`.

    python -m compilegate.calibration.tolerance_use .runs/*.jsonl

Each figure of every tensor is divided by its bound. A share above 1 fails; the largest share of
healthy runs shows how much room is left. The family of known bugs is left
out.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from compilegate.judging.over_calls import over_calls
from compilegate.judging.pooled import AS_A_WHOLE
from compilegate.judging.scale_over_calls import scales_over_calls
from compilegate.judging.single_rows import checks_of_rows
from compilegate.judging.tolerances import checks, in_half, is_on_cpu, widening
from compilegate.output.streams import clean_streams
from compilegate.records.case import Case, model_of
from compilegate.records.observation import Observation
from compilegate.records.rounding import HALF_ERRORS, is_blind, pooled_noise, pooled_ratio
from compilegate.runs import files
from compilegate.runs.reader import RunError
from compilegate.runs.slim import GROUPS
from compilegate.zoo import registry

QUANTILES = (0.5, 0.99, 0.999, 1.0)


def shares(observation: Observation) -> Iterator[tuple[str, str, float, str]]:
    """Yield group, figure, share of the allowance and name of each tensor that is not blind."""
    half, on_cpu = in_half(observation), is_on_cpu(observation)
    for call in observation.calls:
        for group in GROUPS:
            errors = getattr(call, group).errors
            pooled = pooled_noise(errors)
            for error in errors:
                if is_blind(error):
                    continue
                factor = widening(error, observation)
                for check in checks(error, pooled, factor, half=half, on_cpu=on_cpu):
                    yield group, check.what, check.share, error.name
    for group in GROUPS:
        for error, check in checks_of_rows(observation, group):
            yield group, check.what, check.share, error.name
        for one in over_calls(observation, group):
            yield group, "one tensor over calls", one.seen / one.allowed, one.error.name
        for scale in scales_over_calls(observation, group):
            share = abs(scale.seen) / scale.allowed
            yield group, "one scale over calls", share, scale.error.name
        half = Case.parse(observation.case).computes_in_half
        if half and (seen := _together(observation, group)):
            yield group, "all together, beyond chance", seen / AS_A_WHOLE, "all tensors"


def _together(observation: Observation, group: str) -> float:
    """Return compiled error over eager's own in all tensors and calls; 0 if no tensor counts.

    In older records, only tensors whose noise was not sampled show eager's own error.
    """
    logs = []
    for call in observation.calls:
        counted = [
            (error.compiled_rms / own, error.numel)
            for error in getattr(call, group).errors
            if error.has_reference
            and not is_blind(error)
            and (own := error.eager_own or (0.0 if error.samples else error.eager_rms))
            >= HALF_ERRORS
        ]
        if counted:
            logs.append(math.log(pooled_ratio(*zip(*counted, strict=True))))
    return math.exp(statistics.fmean(logs)) if logs else 0.0


def table(observations: Iterable[Observation], *, by_case: bool = False) -> list[str]:
    """Return quantiles of the shares by precision, group and figure, and the largest tensor.

    Args:
        observations: The cases.
        by_case: Whether each case has lines of its own, in place of each precision.
    """
    found: dict[tuple[str, str, str], list[tuple[float, str]]] = defaultdict(list)
    for observation in observations:
        kind = observation.case if by_case else Case.parse(observation.case).computes_in
        for group, what, share, name in shares(observation):
            found[kind, group, what].append((share, f"{name} in {observation.case}"))
    head = "".join(f"{quantile:>8.1%}" for quantile in QUANTILES)
    width = max((len(kind) + 2 for kind, _, _ in found), default=0) if by_case else 10
    first = "case" if by_case else "precision"
    lines = [f"{first:{width}}{'group':11}{'figure':35}{'tensors':>9}{head}  largest"]
    for (kind, group, what), items in sorted(found.items()):
        items.sort()
        values = [items[min(int(q * len(items)), len(items) - 1)][0] for q in QUANTILES]
        row = "".join(f"{value:8.2f}" for value in values)
        lines.append(f"{kind:{width}}{group:11}{what:35}{len(items):>9}{row}  {items[-1][1]}")
    return lines


@clean_streams()
def main() -> None:
    """Print the table of some run files."""
    parser = argparse.ArgumentParser(
        prog="python -m compilegate.calibration.tolerance_use",
        description="Print how much of each tolerance healthy runs use. A share above 1 fails.",
        epilog="Example: python -m compilegate.calibration.tolerance_use .runs/*.jsonl",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run file, or its name in .runs")
    parser.add_argument("--by-case", action="store_true", help="print lines for each case")
    try:
        given = parser.parse_args()
        runs = [files.read(files.find(name, Path(".runs"))) for name in given.runs]
    except RunError as error:
        parser.error(str(error))
    known_bugs = {name for name, model in registry.load().items() if model.family == "regressions"}
    seen = [
        observation
        for run in runs
        for observation in run.observations.values()
        if model_of(observation.case) not in known_bugs
    ]
    print(f"{len(seen)} cases", *table(seen, by_case=given.by_case), sep="\n")


if __name__ == "__main__":
    main()
