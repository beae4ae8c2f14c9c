"""State outside tensors: streams in memory, context variables, environment variables."""

import contextvars
import io
import os

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.observe.model.environment_variables import named_in
from compilegate.observe.model.shared_state import SharedState
from compilegate.observe.model.snapshot import Snapshot
from compilegate.suites import test_forward, test_side_effects
from tests.unit.compiled import INFER, TRAIN, differences
from tests.unit.observed import Linear, verdict

CALLS = contextvars.ContextVar("CALLS", default=0)
UNSET = contextvars.ContextVar("UNSET")
NAME = "COMPILEGATE_TEST_NAME"
WANTS = ("capture", "vary", "reuse", "respecialise", "every_layout")


class Logs(Linear):
    """Writes to streams that it keeps."""

    def __init__(self, forgets=False):
        super().__init__()
        self.log, self.sent = io.StringIO(), [io.BytesIO(b"start")]
        self.forgets = forgets

    def forward(self, x):
        if not (self.forgets and is_compiling()):
            self.log.write(f"{x.shape[0]} rows\n")
            self.sent[0].write(b"x")
        return self.linear(x) * len(self.log.getvalue())


class Counts(Linear):
    """Counts its calls in a context variable and in environment variables."""

    def __init__(self, forgets=False):
        super().__init__()
        self.forgets = forgets

    def forward(self, x):
        if not (self.forgets and is_compiling()):
            count(CALLS.get() + 1)
        return self.linear(x) * CALLS.get()


@torch.compiler.disable  # Dynamo takes a variable that is not set yet for one that never is
def count(calls):
    CALLS.set(calls)
    os.environ["COMPILEGATE_TEST_CALLS"] = str(calls)
    os.environ[NAME] = "on" * calls


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch):
    CALLS.set(0)
    for name in (NAME, "COMPILEGATE_TEST_CALLS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("case", [INFER, TRAIN], ids=["infer", "train"])
@pytest.mark.parametrize("module", [Logs, Counts])
def test_each_side_finds_them_as_it_left_them(module, case):
    inputs = lambda: (torch.ones(3, 4),)  # noqa: E731
    assert differences(module, case, calls=3, backend="eager", inputs=inputs) == []
    assert CALLS.get() == 0
    assert not {NAME, "COMPILEGATE_TEST_CALLS"} & os.environ.keys()


@pytest.mark.parametrize("module", [Logs, Counts])
def test_a_model_that_uses_them_passes(module):
    for suite in (test_forward, test_side_effects):
        found = verdict(module, "infer", "eager", suite, wants=WANTS)
        assert found.outcome == "passed", found


@pytest.mark.parametrize(
    ("module", "lost"),
    [
        (Logs, "attribute log: value differs: eager \"at 7 of 7, ending in '8 rows\\\\n' ("),
        (Logs, "attribute sent[0]: value differs: eager \"at 1 of 5, ending in b'xtart' ("),
        (Counts, f"global {__name__}.CALLS.get(): value differs: eager 2, compiled 0"),
        (Counts, f"environment variable {NAME}: value differs: eager 'onon', compiled None"),
        (Counts, "environment variable COMPILEGATE_TEST_CALLS: value differs: eager '1'"),
    ],
)
def test_a_lost_change_is_found(module, lost):
    found = verdict(lambda: module(forgets=True), "infer", "eager", test_side_effects)
    assert found.outcome == "failed"
    assert lost in "\n".join((found.summary, *found.details))


def test_dynamos_own_loss_of_an_environment_variable_is_found():
    def step(x):
        os.environ[NAME] = os.environ.get(NAME, "") + "again"
        return x * 2

    found = differences(lambda: step, calls=2, backend="eager")
    assert (f"environment variable {NAME}", "'againagain'", "'again'") in found


def test_a_snapshot_puts_streams_back_again_and_again():
    module = Logs()
    x = torch.ones(8, 4)
    module(x)
    snapshot = Snapshot(module, parameters=False)
    for _ in range(2):
        module(x)
        module.log.seek(3)
        snapshot.put_back()
        assert (module.log.getvalue(), module.log.tell()) == ("8 rows\n", 7)
        assert (module.sent[0].getvalue(), module.sent[0].tell()) == (b"xtart", 1)


def test_a_closed_stream_is_no_state():
    class Closes(nn.Module):
        def __init__(self):
            super().__init__()
            self.log = io.StringIO("a")

        def forward(self, x):
            self.log.close()
            return x * 2

    module = Closes()
    snapshot = Snapshot(module, parameters=False)
    module(torch.ones(3))
    snapshot.put_back()
    assert differences(Closes, calls=2, backend="eager") == []


def test_a_context_variable_without_a_default_is_no_state():
    def step(x):
        return x * UNSET.get(2)

    assert dict(SharedState(step).read()) == {}


def read_home():
    return os.environ["HOME"], os.environ.get("TORCHINDUCTOR_CACHE_DIR")


def compare_home():
    return "HOME"


def test_environment_variables_are_those_that_a_function_names_unless_pytorch_sets_them():
    assert named_in(read_home.__code__, []) == {"HOME"}
    assert named_in(compare_home.__code__, []) == frozenset()
    assert named_in(read_home.__code__, [NAME, 3]) == {"HOME", NAME}
