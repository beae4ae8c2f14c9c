"""A session whose GPU is gone ends at once, says so once, and can be resumed."""

from tests.integration.conftest import FORWARD, ZOOS

#: Stands for a GPU that is gone after the first case that raises.
GONE = """
from compilegate.processes import lost_device

lost_device.is_suspected = lambda observation: observation.status == "raised"
lost_device.why_gone = lambda observer, kind: "RuntimeError: CUDA error: GPU is lost"
"""
CASES = [
    f"{model}-cpu-infer-f32-default-static" for model in ("raises_in_build", "segfaults_in_build")
]


def test_the_session_stops_before_the_next_case_and_is_resumed(compilegate, write, tmp_path):
    write("gone.py", GONE)
    zoo = ("--zoo", str(ZOOS / "hostile.py"), *(w for case in CASES for w in ("--cases", case)))
    chosen = (FORWARD, "suites/test_memory.py", *zoo)
    session = compilegate(
        *(*chosen, "--save", "mine", "-p", "gone"), env={"PYTHONPATH": str(tmp_path)}
    )
    assert session.status == 2
    said = "the device cpu is gone since raises_in_build-cpu-infer-f32-default-static"
    assert session.output.count(said) == 1
    assert session.output.count("CUDA error: GPU is lost") == 1
    assert session.observed == CASES[:1]
    assert session.failed("raises_in_build").keys() == {"forward", "memory"}
    assert "--resume mine" in session.output

    resumed = compilegate(*chosen, "--resume", "mine")
    assert resumed.status == 1
    assert resumed.observed == CASES
