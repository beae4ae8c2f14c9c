"""``--collect-only``: lists cases without torch, without a child, without a GPU."""

import subprocess
import sys

import pytest

from tests.integration.conftest import CHECKOUT, FORWARD, MATVEC, surroundings


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_nothing_is_imported_or_started(compilegate, witness, device):
    session = compilegate(
        *("--collect-only", "-q", "-m", device, "--models", "matvec"),
        env={**witness.env, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert session.status == 0, session.output
    wanted = MATVEC if device == "cpu" else MATVEC.replace("-cpu-", "-cuda-")
    assert f"{FORWARD}::test_outputs_match_eager[{wanted}]" in session.output
    assert witness.seen == set()
    assert not session.runs.exists()


def test_a_session_without_a_path_collects_the_suites(tmp_path):
    """The checkout's ``testpaths`` names them."""
    words = ("-m", "cpu", "--models", "matvec", "--collect-only", "-q", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=CHECKOUT,
        env=surroundings(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{FORWARD}::test_outputs_match_eager[{MATVEC}]" in done.stdout
