"""``compilegate fuzz``: a planted fault is found and reduced, healthy code raises no alarm."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from compilegate.fuzzing.examiner import Examiner
from compilegate.fuzzing.generate import QUICK
from compilegate.fuzzing.program import Program, Statement, Value
from compilegate.fuzzing.state import FILE
from tests.integration.conftest import ZOOS, run_to_its_end
from tests.integration.processes import begun, living, soon

pytestmark = pytest.mark.long


def words(folder, *arguments):
    """The fuzzer on the quick backend, which needs no C++ compiler."""
    command = [sys.executable, "-m", "compilegate", "fuzz", "--inductor-share", "0"]
    return [*command, "--workers", "1", "-o", str(folder), *arguments]


def records(folder, kind):
    lines = (folder / FILE).read_text().splitlines()
    return [r for r in map(json.loads, lines) if r["record"] == kind]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "fuzz"


def test_healthy_programs_raise_no_alarm(folder):
    done = run_to_its_end(words(folder, "--seed", "5", "--programs", "8"), None, folder)
    assert done.status == 0, done.output
    assert [one["number"] for one in records(folder, "program")] == [*range(8)]
    assert {one["word"] for one in records(folder, "program")} <= {"passed", "inconclusive"}
    assert not [*folder.glob("finding-*")]
    assert not living(folder)


def test_a_planted_fault_is_found_reduced_and_grouped(folder):
    plant = ("--plant", str(ZOOS / "planted_division.py"))
    limits = ("--programs", "2", "--reduction-seconds", "60")
    done = run_to_its_end(words(folder, "--seed", "4", *limits, *plant), None, folder)
    assert done.status == 1, done.output
    (finding,) = records(folder, "finding")
    assert (finding["kind"], finding["stage"]) == ("values", QUICK)
    assert [one["operator"] for one in finding["program"]["statements"]] == ["x / (y.abs() + 0.5)"]
    assert (
        "scale is too large by 0.01 of itself" in finding["line"]
        or "root mean square" in finding["line"]
    )
    assert "decompositions" in (folder / "summary.md").read_text()
    assert json.loads((folder / "summary.json").read_text())[0]["finding"] == 1
    # The script shows nothing without the planted fault: its sound twin.
    script = [sys.executable, str(folder / "finding-1.py")]
    assert subprocess.run(script, check=False, env=os.environ).returncode == 0
    assert "compilegate import Example" in (folder / "finding-1.zoo.py").read_text()


def one_call(number, function):
    """A program of one statement."""
    statement = Statement(
        text=f"v0 = {function}(x0)", makes=("v0",), reads=("x0",), operator=function
    )
    return Program(
        name=f"fuzz.0.{number}",
        values=(Value(name="x0", text="torch.randn(4, 3)"),),
        statements=(statement,),
        returns=("v0",),
        backend=QUICK,
        varies=False,
    )


def test_a_crash_and_a_hang_end_one_program_each(tmp_path):
    functions = ("torch.sin", "torch.sinh", "torch.cosh", "torch.tan", "torch.no_such_function")
    plant = ZOOS / "planted_deaths.py"
    examiner = Examiner(tmp_path, "0", threading.Event(), plant=plant, cpp=False, timeout_s=4.0)
    programs = [one_call(*each) for each in enumerate(functions)]
    try:
        outcomes = [*examiner.examine(programs)]
    finally:
        examiner.close()
    words = [outcome.word for outcome in outcomes]
    assert words == ["passed", "failed", "failed", "passed", "invalid"]
    kinds = [outcome.symptom.kind for outcome in outcomes if outcome.symptom]
    assert kinds == ["crash", "hang"]
    assert "SIGSEGV" in outcomes[1].symptom.line


@pytest.mark.parametrize("asked", [None, "1"], ids=["shared", "asked"])
def test_workers_share_the_processors_out(folder, tmp_path, monkeypatch, asked):
    """Unless the user asks for as many threads: one for the single worker."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    workers = len(os.sched_getaffinity(0))
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        workers = 1
    seen, plant = tmp_path / "seen", tmp_path / "plant.py"
    plant.write_text(f"import torch\nopen({str(seen)!r}, 'w').write(str(torch.get_num_threads()))")
    limits = ("--programs", "1", "--workers", str(workers), "--plant", str(plant))
    done = run_to_its_end(words(folder, "--seed", "5", *limits), None, folder)
    assert done.status == 0, done.output
    assert seen.read_text() == "1"


def test_a_run_that_was_stopped_goes_on(folder):
    command = words(folder, "--seed", "5")
    with begun(command, folder) as process:
        assert soon(lambda: (folder / FILE).is_file() and len(records(folder, "program")) >= 2)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    same = f"--seed 5 --inductor-share 0 --workers 1 --minutes 10 --output {folder}"
    assert f"to continue: compilegate fuzz {same}" in output
    assert soon(lambda: not living(folder)), living(folder)
    first = [one["number"] for one in records(folder, "program")]
    again = run_to_its_end([*command, "--programs", "2"], None, folder)
    assert again.status == 0, again.output
    numbers = [one["number"] for one in records(folder, "program")]
    assert numbers == [*first, *itertools.islice(itertools.count(len(first)), 2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--minutes", "0"), "--minutes 0: give a number above 0"),
        (("--workers", "many"), "--workers many: give a number, or auto"),
        (("--inductor-share", "2"), "--inductor-share 2: give a share"),
    ],
)
def test_a_wrong_option_is_refused(folder, arguments, message):
    done = run_to_its_end(words(folder, *arguments), None, folder)
    assert done.status == 2
    assert message in done.output


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU")
def test_a_device_that_the_machine_lacks_is_refused(folder):
    done = run_to_its_end(words(folder, "--device", "cuda"), None, folder)
    assert done.status == 2, done.output
    assert "--device cuda: torch" in done.output
    assert "sees no such device" in done.output
    assert not living(folder)


def test_another_run_in_the_folder_is_refused(folder):
    folder.mkdir()
    other = '{"record":"header","seed":1,"inductor_share":0.0,"torch":"0"}\n'
    (folder / FILE).write_text(other)
    done = run_to_its_end(words(folder, "--seed", "1"), None, folder)
    assert done.status == 2
    assert "is of another run" in done.output
