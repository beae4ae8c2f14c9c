"""A segmentation fault in generated code, or in a process that compiles it, costs its own case."""

import pytest

from tests.integration.conftest import ZOOS, command, run_to_its_end
from tests.integration.processes import living, soon

pytestmark = pytest.mark.long

CASE = "{}-cpu-train-f32-default-static"
KERNELS = ("segfaults_in_a_kernel", "segfaults_in_a_backward_kernel")
MODELS = (*KERNELS, "segfaults_in_a_compile_worker", "healthy")
ASPECTS = {"forward", "gradients"}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """All of the zoo, compiled by Inductor to C++."""
    runs = tmp_path_factory.mktemp("segfaults") / "runs"
    suites = [f"suites/test_{aspect}.py" for aspect in sorted(ASPECTS)]
    cases = [word for model in MODELS for word in ("--cases", CASE.format(model))]
    zoo = ["--zoo", str(ZOOS / "segfaults.py")]
    words = command(*suites, *zoo, *cases, runs=runs, backend="inductor")
    compile_workers = {"TORCHINDUCTOR_COMPILE_THREADS": "2"}
    return run_to_its_end(words, compile_workers, runs)


@pytest.mark.parametrize("model", KERNELS)
def test_a_segmentation_fault_in_generated_code_is_a_crash_of_its_case(session, model):
    failed = session.failed(model)
    assert failed.keys() == ASPECTS
    assert set(failed.values()) == {"crashed in stage 'compile': the process died of SIGSEGV"}


def test_a_case_whose_compile_worker_dies_is_judged(session):
    assert session.verdicts("segfaults_in_a_compile_worker").keys() == ASPECTS
    assert session.outcomes("segfaults_in_a_compile_worker") == {"passed"}


def test_the_model_after_them_passes_and_no_process_is_left(session):
    assert session.verdicts("healthy").keys() == ASPECTS
    assert session.outcomes("healthy") == {"passed"}
    assert soon(lambda: not living(session.runs)), living(session.runs)
