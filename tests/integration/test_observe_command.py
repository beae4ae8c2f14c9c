"""``compilegate observe CASE_ID``: the command that every failure prints."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from compilegate.runs.reader import decode
from compilegate.runs.reproduction import python
from tests.integration.conftest import CHECKOUT, FORWARD, MATVEC, ZOOS, faulty_case, surroundings


def observe(tmp_path, *arguments, stdin=None, cwd=CHECKOUT, backend="aot_eager"):
    return subprocess.run(
        [sys.executable, "-m", "compilegate", "observe", *arguments, "--backend", backend],
        cwd=cwd,
        env=surroundings(tmp_path),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )


def hostile(model):
    return f"{model}-cpu-infer-f32-default-static", "--zoo", str(ZOOS / "hostile.py")


@pytest.mark.long
def test_json_prints_only_records(tmp_path):
    wants = ("--want", "capture", "--want", "vary", "--seed", "5", "--json")
    done = observe(tmp_path, *hostile("prints_a_megabyte"), *wants)
    assert done.returncode == 0, done.stderr[-2000:]
    observation, *verdicts = map(decode, done.stdout.splitlines())
    assert (observation.status, observation.seed, observation.timing) == ("completed", 5, None)
    assert {verdict.case for verdict in verdicts} == {observation.case}
    assert {verdict.outcome for verdict in verdicts} == {"passed", "skipped"}
    assert "# compile" in done.stderr


def test_a_failed_build_shows_the_users_line(tmp_path):
    done = observe(tmp_path, *hostile("raises_in_build"))
    assert done.returncode == 1
    assert done.stdout.startswith("raises_in_build-cpu-infer-f32-default-static\ntorch ")
    assert "raised in stage 'build': RuntimeError: no such weights" in done.stdout
    assert 'hostile.py", line' in done.stdout
    assert "RuntimeError" not in done.stderr


def test_a_process_that_crashes_is_a_failure(tmp_path):
    done = observe(tmp_path, *hostile("segfaults"), "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert "compilegate: the observing process died of SIGSEGV" in done.stderr


def test_pdb_reads_from_the_terminal(tmp_path):
    done = observe(tmp_path, *hostile("raises_in_build"), "--pdb", stdin="p 6 * 7\nq\n")
    assert done.returncode == 1
    assert "(Pdb) 42" in done.stderr


@pytest.mark.parametrize(
    ("case_id", "message"),
    [
        (MATVEC.replace("matvec", "matvek"), "unknown model 'matvek'; did you mean 'matvec'?"),
        (MATVEC.replace("static", "statik"), "did you mean 'static'?"),
        ("matvec", "malformed case id 'matvec'"),
    ],
)
def test_an_unknown_case_is_a_usage_error(tmp_path, case_id, message):
    done = observe(tmp_path, case_id)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("zoo", "message"),
    [("1 / 0\n", "ZeroDivisionError"), ("x = 1\n", "unknown model 'mine'")],
)
def test_a_wrong_zoo_file_is_a_usage_error(tmp_path, zoo, message):
    (tmp_path / "mine.py").write_text(zoo)
    case = MATVEC.replace("matvec", "mine")
    done = observe(tmp_path, case, "--zoo", str(tmp_path / "mine.py"))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_case_without_its_gpu_is_a_usage_error(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = observe(tmp_path, MATVEC.replace("cpu", "cuda"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs a GPU that torch" in done.stderr


@pytest.mark.long
def test_the_printed_command_works_when_it_is_pasted(compilegate, write):
    """The files come from ini settings, and the command names them."""
    case = faulty_case("scale_is_off")
    mine = write("mine.toml", '[[budget]]\nmodel = "scale_is_off"\nrecompiles = 1\n')
    ini = ("-o", f"zoo={ZOOS / 'faulty.py'}", "-o", f"budgets={mine}")
    session = compilegate(FORWARD, *ini, "--cases", case, "--seed", "7")
    assert session.status == 1
    message = session.message(f"test_outputs_match_eager[{case}]")
    (line,) = [line for line in message.splitlines() if line.startswith("reproduce: ")]
    words = shlex.split(line.removeprefix("reproduce: "))
    assert words == [
        *(python(), "-m", "compilegate", "observe", case, "--zoo", "tests/zoos/faulty.py"),
        *("--budgets", mine, "--seed", "7", "--backend", "aot_eager", "--cold"),
    ]
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    env = {**surroundings(session.runs), "PATH": path}
    done = subprocess.run(
        [*words, "--json"],
        cwd=CHECKOUT,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    verdicts = {record["aspect"]: record for record in records if record["record"] == "verdict"}
    assert verdicts["forward"]["outcome"] == "failed"
    assert verdicts["forward"]["summary"] in message


@pytest.mark.long
def test_a_fresh_process_finds_what_the_command_compiled_for_a_users_file(tmp_path):
    """The file imports PyTorch. If it were the first to do so, its name would be in the keys."""
    case = "sound_caches-cpu-infer-f32-default-static"
    zoo = ("--zoo", str(ZOOS / "practised_caches.py"))
    done = observe(tmp_path, case, *zoo, "--want", "caches", backend="inductor")
    assert re.search(r"^passed +caches +16 steps", done.stdout, re.MULTILINE), done.stdout
