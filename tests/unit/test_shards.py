"""Shards hold every case once, and take about as long as each other."""

from dataclasses import replace

import pytest

from compilegate.records.case import Case
from compilegate.records.observation import Failure
from compilegate.records.performance import Memory
from compilegate.session import earlier
from compilegate.session.earlier import Earlier, Taken
from compilegate.session.shards import Shard, divide
from tests.unit.making import make_header, make_observation
from tests.unit.planned import write_run

SETTINGS = ("infer-f32-default-static", "infer-bf16-default-static", "train-f32-default-auto")
CASES = [Case.parse(f"net{n}-cpu-{setting}") for n in range(13) for setting in SETTINGS]


def length(case):
    return float(case.model.removeprefix("net")) + 1


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_every_case_is_in_one_shard(count):
    shards = divide(CASES, count, length)
    assert len(shards) == count
    assert sorted(case.id for shard in shards for case in shard) == sorted(c.id for c in CASES)


def test_models_stay_together_and_shards_end_together():
    shards = divide(CASES, 4, length)
    models = [{case.model for case in shard} for shard in shards]
    assert sum(map(len, models)) == 13
    seconds = [sum(map(length, shard)) for shard in shards]
    assert max(seconds) <= 1.1 * min(seconds)


def test_only_a_model_that_takes_longer_than_a_share_is_divided():
    def seconds(case):
        return 100.0 if case.model == "net3" else 1.0

    shards = divide(CASES, 3, seconds)
    assert [sum(case.model == "net3" for case in shard) for shard in shards] == [1, 1, 1]
    others = [{case.model for case in shard} - {"net3"} for shard in shards]
    assert sum(map(len, others)) == 12


def test_the_order_of_the_zoo_changes_no_shard():
    forwards, backwards = divide(CASES, 4, length), divide(CASES[::-1], 4, length)
    assert [{*shard} for shard in forwards] == [{*shard} for shard in backwards]


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2", "1/2/3"])
def test_a_shard_that_does_not_exist_is_refused(text):
    with pytest.raises(ValueError, match="expected I/N"):
        Shard.parse(text)


def test_a_shard_is_one_of_the_parts():
    parts = [Shard.parse(f"{number}/3").of(CASES, length) for number in (1, 2, 3)]
    assert parts == divide(CASES, 3, length)


def seen_in(taken):
    return Earlier(lambda name: "nets", lambda name: name == "net9", taken)


def test_cases_take_as_long_as_they_were_seen_to_and_others_as_long_as_their_kin():
    case, sibling, cousin, slow = CASES[0], CASES[2], CASES[3], CASES[27]
    known = seen_in({case.id: Taken(30.0)})
    assert known.seconds(case) == 30.0
    assert known.seconds(sibling) == 60.0, "it trains"
    assert known.seconds(cousin) == 30.0
    assert known.seconds(slow) == 90.0
    assert seen_in({}).seconds(slow) == 3.0, "next to 1 for a usual case"
    marked = replace(case, dynamic="marked")
    assert known.seconds(marked) == pytest.approx(18.0), "it compiles once for all sizes"


def test_memory_is_that_of_the_case_and_the_most_of_its_kin():
    case, other = CASES[:2]
    known = seen_in({case.id: Taken(1.0, 500), other.id: Taken(1.0, 700)})
    assert known.memory_bytes(case) == 500
    assert known.memory_bytes(CASES[2]) == known.memory_bytes(CASES[3]) == 0
    assert known.most_memory_bytes(CASES[2]) == known.most_memory_bytes(CASES[3]) == 700
    assert seen_in({}).memory_bytes(case) == seen_in({}).most_memory_bytes(case) == 0


def test_the_newest_run_of_the_cases_is_read(tmp_path):
    memory = Memory(eager_peak_bytes=10 << 30, compiled_peak_bytes=1)
    seen = make_observation(
        case=CASES[0].id,
        spent_s={"compile": 3.0, "run": 1.0, "wait for turns": 9.0, "wait for memory": 5.0},
        memory=memory,
    )
    write_run(tmp_path / "old.jsonl", make_header(planned=(CASES[0].id,)), seen)
    write_run(tmp_path / "other.jsonl", make_header(planned=("x-cpu-infer-f32-default-static",)))
    (tmp_path / "damaged.jsonl").write_text("{")
    (tmp_path / "latest.jsonl").symlink_to("gone.jsonl")
    path = earlier.newest(tmp_path, CASES)
    assert path == tmp_path / "old.jsonl"
    taken = earlier.read(path)[CASES[0].id]
    assert taken.seconds == 4.0
    assert taken.memory_bytes > 40 << 30
    assert earlier.newest(tmp_path / "missing", CASES) is None


@pytest.mark.parametrize(("stage", "counts"), [("build", False), ("eager", False), ("call", True)])
def test_a_case_that_did_not_compile_shows_no_time(tmp_path, stage, counts):
    failure = Failure(stage=stage, kind="ModuleNotFoundError", message="no module")
    seen = make_observation(
        case=CASES[0].id, status="raised", spent_s={"build": 0.01}, failure=failure
    )
    write_run(tmp_path / "run.jsonl", make_header(planned=(CASES[0].id,)), seen)
    assert set(earlier.read(tmp_path / "run.jsonl")) == ({CASES[0].id} if counts else set())


def test_shards_of_one_folder_are_not_divided_by_each_other(tmp_path):
    planned = tuple(case.id for case in CASES)
    seen = make_observation(case=CASES[0].id, spent_s={"compile": 3.0})
    write_run(tmp_path / "shard1.jsonl", make_header(planned=planned, shard="1/2"), seen)
    assert earlier.newest(tmp_path, CASES) == tmp_path / "shard1.jsonl"
    assert earlier.newest(tmp_path, CASES, whole=True) is None
    write_run(tmp_path / "whole.jsonl", make_header(planned=planned), seen)
    assert earlier.newest(tmp_path, CASES, whole=True) == tmp_path / "whole.jsonl"
