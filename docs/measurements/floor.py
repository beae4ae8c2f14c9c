"""Print what the cases of runs cost against the floor: ``python docs/measurements/floor.py RUN…``.

The floor of a case is what anybody pays who compiles it and calls it: an import, the compilations
and the calls. The rest is what compilegate adds, in the observing processes and outside of them.
"""

import sys
from collections import Counter
from pathlib import Path

from compilegate.records.observation import EARLIER_ATTEMPTS, WAITING, WAITING_FOR_MEMORY
from compilegate.runs import files
from compilegate.runs.files import Run

#: The activities of an observation that are the floor.
FLOOR = ("import", "compile", "run")
#: What the session does outside of the observing processes: it starts them, and judges.
OUTSIDE = "starting and judging"
_WAITS = (WAITING, WAITING_FOR_MEMORY, EARLIER_ATTEMPTS)


def seconds(run: Run) -> Counter[str]:
    """Return the seconds of a run by activity. Waiting for other workers is none.

    What happens outside of observing processes is known of complete runs with one worker: there,
    the session does one thing at a time.
    """
    found = Counter[str]()
    for seen in run.observations.values():
        found.update({name: s for name, s in seen.spent_s.items() if name not in _WAITS})
    if run.closing is not None and run.closing.wall_s > found.total():
        found[OUTSIDE] = run.closing.wall_s - found.total()
    return found


def row(run: Run) -> str:
    """Return the row of a run: a case's seconds, its floor's, and the share of all else."""
    spent = seconds(run)
    cases, all_s = len(run.observations), spent.total()
    floor_s = sum(spent[name] for name in FLOOR)
    rest = [(name, s / all_s) for name, s in spent.most_common() if name not in FLOOR]
    named = ", ".join(f"{name} {share:.1%}" for name, share in rest if share >= 0.005)
    return (
        f"| `{run.path.name.partition('.')[0]}` | {cases} | {all_s / cases:.1f} | "
        f"{floor_s / cases:.1f} | {1 - floor_s / all_s:.1%} | {named} |"
    )


def main() -> None:
    """Print a table in Markdown, a row a run."""
    print("| run | cases | s a case | of it the floor | the rest | which is |")
    print("|---|---|---|---|---|---|")
    for name in sys.argv[1:]:
        print(row(files.read(files.find(name, Path(".runs")))))


if __name__ == "__main__":
    main()
