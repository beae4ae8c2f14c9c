"""Pairs of what two runs hold of a case, and small run files, for tests of what compares them."""

from compilegate.records.run import Closing, encode
from compilegate.runs.archive import Archive, CaseRecord
from compilegate.upgrade.case_comparison import compare_case
from compilegate.upgrade.comparison import compare
from tests.unit.making import (
    CASE_ID,
    make_environment,
    make_header,
    make_observation,
    make_verdict,
)

ABSENT = CaseRecord(planned=False)
UNOBSERVED = CaseRecord(planned=True)
OLD = make_environment(versions={"torch": "2.14.1+cu130"})
NEW = make_environment(versions={"torch": "2.15.0+cu130"})


def seen(observation=None, **outcomes):
    """A case with verdicts: ``seen(forward="failed")``; *forward* passed by default."""
    verdicts = [
        make_verdict(outcome, aspect=aspect, summary=f"{aspect} {outcome}")
        for aspect, outcome in (outcomes or {"forward": "passed"}).items()
    ]
    return CaseRecord.of(observation or make_observation(), verdicts)


def compared(before, now, case=CASE_ID, **how):
    """What became of a case, given what both runs hold or observed of it."""
    before, now = (side if isinstance(side, CaseRecord) else seen(side) for side in (before, now))
    return compare_case(case, before, now, **how)


def effects(comparison):
    """Aspect and effect of each change."""
    return [(change.aspect, change.effect) for change in comparison.changes]


def write_run(path, *records, planned=None, environment=NEW, complete=True, **header):
    """A run file of these observations and verdicts."""
    cases = [record.case for record in records if hasattr(record, "status")]
    planned = cases if planned is None else planned
    lines = [encode(make_header(planned=planned, environment=environment, **header))]
    lines += [encode(record) for record in records]
    lines += [encode(Closing(cases=len(planned), wall_s=1.0))] if complete else []
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def compare_files(baseline, candidate, **how):
    """Two run files compared."""
    with Archive(baseline) as before, Archive(candidate) as now:
        return compare(before, now, **how)
