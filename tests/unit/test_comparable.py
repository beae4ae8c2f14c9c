"""Whether two runs can be compared, as far as their environments say."""

from dataclasses import replace

from tests.unit.making import make_observation
from tests.unit.runs import NEW, OLD, compare_files
from tests.unit.runs import write_run as run


def test_runs_that_record_versions_only_cause_a_caution(tmp_path):
    old = run(tmp_path / "a.jsonl", make_observation(), environment=replace(NEW, inventory=None))
    new = run(tmp_path / "b.jsonl", make_observation(), environment=NEW)
    assert compare_files(new, new).cautions == ()
    assert compare_files(old, new).cautions == (
        "the baseline records versions only: libraries and settings may differ",
    )
    assert compare_files(old, old).cautions == (
        "each of the runs records versions only: libraries and settings may differ",
    )
    other = run(tmp_path / "c.jsonl", make_observation(), environment=OLD)
    assert compare_files(other, old).cautions == ()  # two versions differ in any case


def test_costs_of_other_vector_instructions_are_not_compared(tmp_path):
    processor = replace(NEW.devices[0], instructions="avx2")
    wider = replace(processor, instructions="avx2 avx512f")
    paths = [
        run(tmp_path / f"{i}.jsonl", make_observation(), environment=replace(NEW, devices=(d,)))
        for i, d in enumerate((NEW.devices[0], processor, wider))
    ]
    assert compare_files(paths[1], paths[2]).machines == ("vector instructions avx2 → avx2 avx512f")
    assert compare_files(paths[0], paths[2]).machines == ""  # the first does not record them
