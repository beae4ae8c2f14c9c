"""How far single rows of a tensor may be off in half precision, over all calls together.

A wrong statistic of a norm scales each row by another factor. No figure of the whole tensor shows
that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compilegate.judging.tolerances import CHAOS, CHAOTIC, Check
from compilegate.records.call import TensorError
from compilegate.records.observation import Observation
from compilegate.records.rounding import EPS, is_blind

#: Allowed error of single rows in half precision, as a multiple of eager's own. It is at least the
#: first factor; few rows vary more by chance, so they get more. The floor is in eps.
ROWS, FEW_ROWS, ROWS_FLOOR = 1.75, 6.0, 0.01
#: The same for the rows that are furthest off: one in fifty is further off than eager's.
HIGH_ROWS, FEW_HIGH_ROWS = 2.0, 8.0
#: Of few rows, eager's median is small by luck: of four, in one tensor of six. Its elements say by
#: how much a row is off if they err independently. These multiples of that, over the root of the
#: number of rows, count as eager's, in the median and in one row in fifty.
OF_ROWS, OF_HIGH_ROWS = 3.0, 6.0


def checks_of_rows(observation: Observation, group: str) -> Iterator[tuple[TensorError, Check]]:
    """Yield the checks of the rows of each tensor of a group, with the tensor."""
    by_name: dict[str, list[TensorError]] = {}
    for call in observation.calls:
        for error in getattr(call, group).errors:
            if error.rows and not is_blind(error):
                by_name.setdefault(error.name, []).append(error)
    for errors in by_name.values():
        rows = sum(error.rows for error in errors)
        chaotic = any(error.jumps or error.eager_rms > CHAOS for error in errors)
        wider = CHAOTIC if chaotic else 1.0
        floor = ROWS_FLOOR * EPS[errors[0].dtype]
        of_elements = sum(_of_elements(error) * error.rows for error in errors) / rows
        for what, figure, least, few, multiple in (
            ("scale of single rows", "rows", ROWS, FEW_ROWS, OF_ROWS),
            ("scale of one row in fifty", "high_rows", HIGH_ROWS, FEW_HIGH_ROWS, OF_HIGH_ROWS),
        ):
            eager, compiled = (
                sum(getattr(error, f"{side}_{figure}") * error.rows for error in errors) / rows
                for side in ("eager", "compiled")
            )
            factor = wider * max(least, 1.25 + few / math.sqrt(rows))
            noise = max(eager, multiple / math.sqrt(rows) * of_elements)
            yield errors[0], Check(what, compiled, eager, factor * noise + floor)


def _of_elements(error: TensorError) -> float:
    """Return by how much a row of a tensor is off if its elements err independently in eager."""
    return error.eager_own * math.sqrt(error.rows / error.numel)
