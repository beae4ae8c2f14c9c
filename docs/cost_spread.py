"""Print how far apart the costs of two healthy runs of one PyTorch are, both ways.

python docs/cost_spread.py RUN RUN
"""

import statistics
import sys
from pathlib import Path

from compilegate.runs import files
from compilegate.runs.archive import Archive
from compilegate.upgrade.stored_costs import growths


def main(ours: str, theirs: str) -> None:
    """Print the largest growth and the geometric mean of each cost, over all common cases."""
    with (
        Archive(files.find(ours, Path(".runs"))) as before,
        Archive(files.find(theirs, Path(".runs"))) as now,
    ):
        ratios: dict[str, list[float]] = {}
        for case in before.cases:
            sides = before.seen(case).observation, now.seen(case).observation
            if sides[0] is not None and sides[1] is not None:
                for growth in growths(sides[0], sides[1]):
                    ratios.setdefault(growth.cost, []).append(growth.ratio)
    for cost, found in ratios.items():
        mean = statistics.geometric_mean(found)
        print(f"{cost:16} {len(found):3} cases, largest {max(found):.2f}, mean {mean:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
