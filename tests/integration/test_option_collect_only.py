"""``--collect-only``: lists cases without torch, without a child, without a GPU."""

import pytest

from tests.integration.conftest import FORWARD, MATVEC


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
