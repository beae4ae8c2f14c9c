"""``compilegate compare A B C …``: one table, and the newest safe PyTorch."""

import pytest

from compilegate.__main__ import main
from compilegate.records.environment import Device
from tests.unit.making import make_environment, make_observation, make_verdict
from tests.unit.runs import write_run

CASES = [f"m{index}-cpu-infer-f32-default-static" for index in range(3)]


@pytest.fixture
def reports(tmp_path, capsys):
    """Runs the command on runs in the test's folder."""

    def command(*words):
        status = main([*words, "--runs", str(tmp_path)])
        return status, capsys.readouterr()

    return command


@pytest.fixture
def run(tmp_path):
    """Writes a run of a version of torch in which some cases fail."""

    def write(name, torch, *failing):
        records = [make_observation(case=case) for case in CASES]
        for case in CASES:
            outcome = "failed" if case in failing else "passed"
            records.append(make_verdict(outcome, case=case, summary=f"{outcome} in {name}"))
        environment = make_environment(versions={"torch": torch})
        write_run(tmp_path / f"{name}.jsonl", *records, environment=environment)

    return write


def test_the_newest_safe_candidate_is_named_by_version_not_by_place(reports, run):
    run("old", "2.8.1")
    run("new", "2.10.0")
    run("newer", "2.9.0")
    run("newest", "2.15.0", CASES[1])
    status, output = reports("compare", "old", "newest", "new", "newer")
    assert status == 0
    lines = output.out.splitlines()
    assert lines[1].split() == ["newest", "2.15.0", "do", "not", "upgrade:", "1", "broken"]
    assert lines[2].split() == ["new", "2.10.0", "safe"]
    assert "newest safe: torch 2.10.0, run new" in lines
    assert lines[-2].split() == ["case", "newest", "new", "newer"]
    assert lines[-1].split() == [CASES[1], "broken", "unchanged", "unchanged"]


def test_without_a_safe_candidate_none_is_named(reports, run):
    run("old", "2.8.1")
    run("a", "2.9.0", CASES[0])
    run("b", "2.10.0", *CASES)
    status, output = reports("compare", "old", "a", "b")
    assert status == 1
    assert "none of them is safe" in output.out
    assert "newest safe" not in output.out


def test_a_candidate_that_cannot_be_decided_is_not_safe(reports, run, tmp_path):
    run("old", "2.8.1")
    run("bad", "2.9.0", CASES[0])
    observed = [make_observation(case=case) for case in CASES]
    write_run(tmp_path / "unjudged.jsonl", *observed)
    status, output = reports("compare", "old", "bad", "unjudged")
    assert status == 2
    assert "none of them is safe" in output.out


def test_a_candidate_of_another_machine_is_compared_without_its_costs(reports, run, tmp_path):
    run("old", "2.8.1")
    run("here", "2.9.0")
    devices = (Device(kind="cpu", name="Intel Xeon", memory_bytes=1, cores=2),)
    elsewhere = make_environment(versions={"torch": "2.9.0"}, devices=devices)
    observed = [make_observation(case=case) for case in CASES]
    passed = [make_verdict(case=case) for case in CASES]
    write_run(tmp_path / "there.jsonl", *observed, *passed, environment=elsewhere)
    _, output = reports("compare", "old", "here", "there")
    here, there = output.out.splitlines()[1:3]
    assert here.endswith(" safe")
    assert there.endswith(" safe, costs not compared")


def test_other_formats_show_one_comparison_only(reports, run):
    for name in ("old", "a", "b"):
        run(name, "2.9.0")
    status, output = reports("compare", "old", "a", "b", "--format", "html")
    assert status == 2
    assert output.err == (
        "compilegate: --format html shows one comparison: name one run B, or leave it out\n"
    )


def test_a_run_that_does_not_exist_is_one_sentence(reports, run):
    run("old", "2.8.1")
    run("a", "2.9.0")
    status, output = reports("compare", "old", "a", "nothing")
    assert status == 2
    assert len(output.err.splitlines()) == 1
