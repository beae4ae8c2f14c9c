"""``python -m compilegate.observe CASE_ID``: the command that every failure prints."""

import subprocess
import sys

import pytest

from compilegate.runs import files
from tests.integration.conftest import CHECKOUT, MATVEC, ZOOS, surroundings


def observe(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "compilegate.observe", *arguments, "--backend", "aot_eager"],
        cwd=CHECKOUT,
        env=surroundings(tmp_path),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize(
    ("model", "status", "ended", "said"),
    [
        ("prints_a_megabyte", 0, "completed", "# compile"),
        ("raises_in_build", 1, "raised", "RuntimeError: no such weights"),
    ],
)
def test_only_the_observation_goes_to_stdout(tmp_path, model, status, ended, said):
    case_id = f"{model}-cpu-infer-f32-default-static"
    wants = ("--want", "capture", "--want", "vary", "--seed", "5")
    done = observe(tmp_path, case_id, "--zoo", str(ZOOS / "hostile.py"), *wants)
    assert done.returncode == status, done.stderr[-2000:]
    (line,) = done.stdout.splitlines()
    observation = files.decode(line)
    assert (observation.case, observation.status, observation.seed) == (case_id, ended, 5)
    assert observation.timing is None
    assert said in done.stderr


@pytest.mark.parametrize(
    ("case_id", "said"),
    [
        (MATVEC.replace("matvec", "matvek"), "unknown model 'matvek'; did you mean 'matvec'?"),
        (MATVEC.replace("static", "statik"), "did you mean 'static'?"),
        ("matvec", "malformed case id 'matvec'"),
    ],
)
def test_a_case_that_does_not_exist_is_a_usage_error(tmp_path, case_id, said):
    done = observe(tmp_path, case_id)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_case_of_a_gpu_that_is_not_there_is_a_usage_error(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = observe(tmp_path, MATVEC.replace("cpu", "cuda"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs a GPU that torch" in done.stderr


def test_a_missing_zoo_file_is_a_usage_error(tmp_path):
    done = observe(tmp_path, MATVEC, "--zoo", str(tmp_path / "missing.py"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert "missing.py" in done.stderr
