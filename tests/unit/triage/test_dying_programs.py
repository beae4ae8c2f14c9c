"""A program that dies in compiled code shows nothing if eager raises: an index is out of range."""

from dataclasses import replace

import pytest

from compilegate.culprits.grouping import culprits
from compilegate.fuzzing.program import Program, Statement, Value
from compilegate.judging.budget import Budget
from compilegate.records.case import Case
from compilegate.triage.scripts.running import Ended
from compilegate.triage.scripts.script import of_program
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.search.suspect import Suspect
from compilegate.triage.search.trials import Trials
from tests.unit.failing import A, failures
from tests.unit.making import make_failed_observation, make_observation
from tests.unit.triage.script_runs import run

DEAD = {"kind": "SIGABRT", "message": "the process died of SIGABRT", "call": "call 1"}
TABLE = Value(name="table", text="torch.randn(2, 4)")
ROWS = Value(name="rows", text="torch.tensor([0, 1])")
LOOK_UP = Statement(text="y = table[rows]", makes=("y",), reads=("table", "rows"))
PROGRAM = Program(name="m", values=(TABLE, ROWS), statements=(LOOK_UP,), returns=("y",))
OUTSIDE = replace(PROGRAM, values=(TABLE, replace(ROWS, text="torch.tensor([0, 7])")))


class Observing(Trials):
    """Programs die with their own backend, and with ``eager`` end in one way."""

    def __init__(self, suspect, in_eager):
        self.suspect, self.in_eager = suspect, in_eager
        self._numbers = iter(range(1, 9))

    def _write(self, text):
        pass

    def _observe(self, case, key, backend, wants, *, seed):
        dead = make_failed_observation("crashed", A, **DEAD)
        return self.in_eager if backend == "eager" else dead


@pytest.mark.parametrize(
    ("in_eager", "backend", "dies"),
    [
        (make_observation(case=A), "inductor", True),
        (make_failed_observation("raised", A, kind="IndexError"), "inductor", False),
        (make_failed_observation("raised", A, kind="IndexError"), "eager", True),
    ],
    ids=["eager returns", "eager raises", "Dynamo kills it"],
)
def test_a_program_that_dies_must_return_without_the_compiler(in_eager, backend, dies):
    observation = make_failed_observation("crashed", A, **DEAD)
    found = failures(observation)
    suspect = Suspect(culprits(found)[0], observation, [found[0].verdict], Budget, "2.15.0")
    trials = Observing(suspect, in_eager)
    if backend == "eager":
        trials.in_eager = make_failed_observation("crashed", A, **DEAD)
    (symptom,) = trials.symptoms([replace(PROGRAM, backend=backend)])
    assert (symptom is not None and symptom.kind == "crash") == dies


@pytest.mark.parametrize("kind", ["crash", "hang", "raises"])
@pytest.mark.parametrize("program", [PROGRAM, OUTSIDE])
def test_a_script_shows_nothing_where_eager_raises(program, kind, tmp_path):
    case = Case.parse("m-cpu-infer-f32-default-static")
    shows = Shows(title="dies", kind=kind, may_raise=True)
    done = run(of_program(program, case, shows), tmp_path)
    raises = program is OUTSIDE
    assert ("eager raises, too, so that this shows nothing" in done.stderr) == raises
    assert done.returncode == raises
    assert not Ended(done.returncode, done.stdout + done.stderr, 1.0).shows
