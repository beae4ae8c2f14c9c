"""Shards become one run: whole if nothing is missing, and only of runs that were made alike."""

import pytest

from compilegate.records.checksum import seal
from compilegate.records.environment import Device
from compilegate.records.run import SCHEMA
from compilegate.reports import markdown
from compilegate.runs import files
from compilegate.runs.archive import Archive
from compilegate.runs.merge import merge
from compilegate.runs.reader import RunError
from compilegate.runs.writer import ROOM
from tests.unit.disk import limited
from tests.unit.making import (
    make_call,
    make_environment,
    make_inventory,
    make_observation,
    make_pair,
    make_verdict,
)
from tests.unit.runs import write_run

IDS = [f"m{i}-cpu-infer-f32-default-static" for i in range(4)]


def shard(path, *cases, **how):
    records = [r for c in cases for r in (make_observation(case=c), make_verdict(case=c))]
    return write_run(path, *records, **how)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "merged.jsonl"


def test_shards_become_one_whole_run(tmp_path, target):
    a = shard(tmp_path / "a.jsonl", *IDS[:2], created="2026-01-02", shard="1/2")
    b = shard(tmp_path / "b.jsonl", *IDS[2:], created="2026-01-01", shard="2/2")
    assert merge([a, b], target) == (4, [])
    run = files.read(target)
    assert run.header.shard == ""
    assert run.header.planned == tuple(IDS)
    assert run.header.created == "2026-01-01"
    assert run.observations == {case: make_observation(case=case) for case in IDS}
    assert run.verdicts == {(case, "forward"): make_verdict(case=case) for case in IDS}
    assert run.closing is not None
    assert run.closing.cases == 4


def test_paired_shards_keep_their_pairs_and_name_the_merged_baseline(tmp_path, target):
    first, second = make_pair(0, IDS[0]), make_pair(0, IDS[1])
    a = write_run(tmp_path / "a.jsonl", make_observation(case=IDS[0]), first, baseline="a.baseline")
    b = write_run(
        tmp_path / "b.jsonl", make_observation(case=IDS[1]), second, baseline="b.baseline"
    )
    assert merge([a, b], target) == (2, [])
    run = files.read(target)
    assert run.header.baseline == "merged.baseline"
    assert run.pairs == {(IDS[0], 0): first, (IDS[1], 0): second}


def test_missing_cases_are_named_and_leave_the_run_open(tmp_path, target):
    a = shard(tmp_path / "a.jsonl", IDS[0], planned=IDS[:2], complete=False)
    b = shard(tmp_path / "b.jsonl", IDS[2])
    assert merge([a, b], target) == (3, [IDS[1]])
    assert files.read(target).closing is None


def test_missing_shards_are_named_and_leave_the_run_open(tmp_path, target):
    a = shard(tmp_path / "a.jsonl", *IDS[:2], shard="1/3")
    b = shard(tmp_path / "b.jsonl", *IDS[2:], shard="3/3")
    assert merge([a, b], target) == (4, ["shard 2/3"])
    run = files.read(target)
    assert run.closing is None
    assert run.header.shard == "1/3, 3/3"
    with Archive(target) as merged:
        assert "Only shard 1/3, 3/3: cases of other shards" in markdown.of_run(merged)
        assert markdown.exit_status(merged) == 2


def test_a_file_that_is_named_twice_is_refused(tmp_path, target):
    a = shard(tmp_path / "a.jsonl", *IDS[:2], shard="1/2")
    with pytest.raises(RunError, match="was named twice"):
        merge([a, a], target)


def test_a_restarted_shard_adds_what_the_first_one_left_out(tmp_path, target):
    a = shard(tmp_path / "a.jsonl", IDS[0], planned=IDS[:2], complete=False)
    b = shard(tmp_path / "b.jsonl", IDS[1])
    assert merge([a, b], target) == (2, [])
    assert files.read(target).closing is not None


def test_one_shard_is_copied(tmp_path, target):
    a = shard(tmp_path / "a.jsonl", *IDS)
    merge([a], target)
    lines = a.read_text().replace('"schema":1,', f'"schema":{SCHEMA},').splitlines()
    assert target.read_text().splitlines() == [seal(line) for line in lines]


def test_a_case_in_two_shards_is_refused(tmp_path, target):
    a, b = (shard(tmp_path / f"{name}.jsonl", IDS[0]) for name in "ab")
    with pytest.raises(RunError, match=rf"{IDS[0]} was observed in .*a.jsonl and again in .*b"):
        merge([a, b], target)
    assert not target.exists()


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"seed": 3}, "seed 0 → 3;|seed 0 → 3. Merge"),
        ({"tier": {"cpu": "full"}}, "tier .*smoke.* → .*full"),
        ({"backend": "eager"}, "backend inductor → eager"),
        ({"tf32": True}, "TF32 off → on"),
        ({"revision": "def"}, "compilegate abc → def"),
        ({"environment": make_environment(versions={"torch": "2.16"})}, "torch 2.15.0.* → 2.16"),
        ({"environment": make_environment(python="3.13")}, "python 3.12.1 → 3.13"),
        ({"environment": make_environment(devices=())}, "cpu AMD EPYC 9655 → none"),
        (
            {"environment": make_environment(inventory=make_inventory(variables={}))},
            "of one run: OMP_NUM_THREADS 4 → unset. Merge",
        ),
        (
            {"environment": make_environment(inventory=make_inventory(libraries={}))},
            "of one run: oneDNN 3.7.1 → none; OpenMP .* → none; glibc 2.39 → none. Merge",
        ),
    ],
)
def test_runs_made_in_another_way_are_refused(tmp_path, target, other, expected):
    plain = {"environment": make_environment()}
    a = shard(tmp_path / "a.jsonl", IDS[0], **plain)
    b = shard(tmp_path / "b.jsonl", IDS[1], **plain | other)
    with pytest.raises(RunError, match=expected):
        merge([a, b], target)
    assert not target.exists()


def test_runners_of_one_kind_may_differ_in_memory_and_kernel(tmp_path, target):
    twin = Device(kind="cpu", name="AMD EPYC 9655", memory_bytes=2**34 + 5, cores=2)
    a = shard(tmp_path / "a.jsonl", IDS[0], environment=make_environment())
    other = make_environment(devices=(twin,), platform="Linux-6.9")
    b = shard(tmp_path / "b.jsonl", IDS[1], environment=other)
    assert merge([a, b], target) == (2, [])


def test_runners_of_one_kind_may_differ_in_clocks_places_and_tools(tmp_path, target):
    other = make_inventory(
        distributions={**make_inventory().distributions, "pip": "26.0", "ruff": "0.14"},
        variables={"OMP_NUM_THREADS": "4", "TORCH_HOME": "/there"},
        machine={"governor": "powersave"},
    )
    a = shard(tmp_path / "a.jsonl", IDS[0], environment=make_environment())
    b = shard(tmp_path / "b.jsonl", IDS[1], environment=make_environment(inventory=other))
    assert merge([a, b], target) == (2, [])


def test_an_existing_file_is_not_overwritten(tmp_path, target):
    a = shard(tmp_path / "a.jsonl", IDS[0])
    target.write_text("precious")
    with pytest.raises(RunError, match=r"merged\.jsonl exists"):
        merge([a], target)
    assert target.read_text() == "precious"


def test_a_name_that_promises_a_compressed_file_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"give --output \S+/merged\.jsonl$"):
        merge([shard(tmp_path / "a.jsonl", IDS[0])], tmp_path / "merged.jsonl.gz")


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    a = shard(tmp_path / "a.jsonl", IDS[0])
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"cannot write .*, or give another --output"):
        merge([a], tmp_path / "file" / "merged.jsonl")


def test_a_disk_that_fills_up_leaves_no_part_of_a_merged_run(tmp_path, target):
    """A part of the shards would look like a run that was interrupted."""
    long = make_observation(case=IDS[0], calls=(make_call(),) * 400)
    a = write_run(tmp_path / "a.jsonl", long, planned=IDS[:1])
    with limited(ROOM), pytest.raises(RunError, match=r"cannot write .*too large; no file was mad"):
        merge([a], target)
    assert not target.exists()
    assert merge([a], target) == (1, [])
