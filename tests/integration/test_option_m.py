"""``-m cpu``, ``-m gpu``: select by device; an absent device is one sentence."""

from tests.integration.conftest import FORWARD, MATVEC

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def test_only_gpu_cases_on_a_machine_without_one_are_refused(compilegate, witness):
    session = compilegate("-m", "gpu", "--models", "matvec", env={**NO_GPU, **witness.env})
    assert session.status == 4
    (sentence,) = [line for line in session.output.splitlines() if line.startswith("ERROR: ")]
    assert sentence.startswith("ERROR: no GPU that torch ")
    assert "Traceback" not in session.output
    assert "every selected case needs one; -m cpu runs on the processor" in sentence
    assert witness.seen == {"child"}


def test_gpu_cases_of_a_mixed_selection_are_skipped_and_the_others_judged(compilegate):
    cuda = MATVEC.replace("-cpu-", "-cuda-")
    session = compilegate(FORWARD, "--cases", MATVEC, "--cases", cuda, "-rs", env=NO_GPU)
    assert session.status == 0, session.output
    assert session.counts == {"passed": 1, "skipped": 1}
    assert session.outcomes(MATVEC) == {"passed"}
    assert "no GPU that torch" in session.output.partition("short test summary")[2]


def test_markers_combine(compilegate):
    collect = (FORWARD, "--models", "matvec", "--tier", "full", "--collect-only", "-q")
    ids = {
        markers: {
            line
            for line in compilegate(*collect, "-m", markers).output.splitlines()
            if "[matvec-" in line
        }
        for markers in ("cpu", "cpu and not slow", "cpu and slow", "gpu", "cpu or gpu")
    }
    assert ids["cpu and not slow"] | ids["cpu and slow"] == ids["cpu"]
    assert all("max_autotune" in line for line in ids["cpu and slow"])
    assert ids["cpu or gpu"] == ids["cpu"] | ids["gpu"]
    assert all("-cuda-" in line for line in ids["gpu"])
