"""Errors that eager raises in a probing call: compiled code must raise, too."""

import pytest
import torch
from torch._dynamo.exc import TorchDynamoException

from compilegate.observe.error_text import is_of_python
from tests.unit.probed import WANTS, probed, verdict_of


def refusing(is_met):
    """Return a model that refuses some inputs in eager; compiled code checks nothing if faulty."""

    def of(*, faulty):
        def forward(x):
            if is_met(x) and not (faulty and torch.compiler.is_compiling()):
                raise ValueError("refused")
            return x.sin()

        return forward

    return of


REFUSED = {
    "batch of one": lambda x: x.shape[0] == 1,
    "transposed inputs": lambda x: x.stride(0) == 1 and x.stride(1) == 8,
}


@pytest.mark.parametrize("faulty", [True, False])
@pytest.mark.parametrize("probe", REFUSED)
def test_an_error_that_compiled_code_loses_shows(probe, faulty):
    model = refusing(REFUSED[probe])
    seen = probed(lambda: model(faulty=faulty), wants=("capture", "vary", *WANTS[3:]))
    assert seen.status == "completed", seen.failure
    found = verdict_of(seen)
    if faulty:
        assert found.outcome == "failed"
        assert "eager raises ValueError: refused, compiled raises nothing" in found.summary
        assert probe in found.summary
    else:
        assert found.outcome == "passed", found.details
        assert f"{probe}: in eager, ValueError: refused" in seen.unprobed


def test_an_operator_may_be_laxer():
    def viewed(x):
        return x.reshape(-1) if torch.compiler.is_compiling() else x.view(-1)

    seen = probed(lambda: viewed, wants=("capture", "vary", *WANTS[3:]))
    assert any(
        line.startswith("transposed inputs: in eager, RuntimeError") for line in seen.unprobed
    )
    assert verdict_of(seen).outcome == "passed"


def test_an_operator_that_eager_runs_through_dynamo_may_be_laxer():
    """``scan``, say, is compiled in eager, too: code of another size refuses a batch of one."""

    def scanned(x):
        if x.shape[0] == 1 and not torch.compiler.is_compiling():
            raise TorchDynamoException("Expected init and carry to have same metadata")
        return x.sin()

    seen = probed(lambda: scanned, wants=("capture", "vary", *WANTS[3:]))
    assert any(line.startswith("batch of one: in eager, TorchDynamo") for line in seen.unprobed)
    assert verdict_of(seen).outcome == "passed"


def test_extreme_values_may_be_refused_in_eager_alone():
    def finite(x):
        if not torch.compiler.is_compiling() and not x.isfinite().all():
            raise ValueError("not finite")
        return x.sin()

    seen = probed(lambda: finite, wants=("capture", "vary", "reuse"))
    assert any(line.startswith("NaN in the first row: in eager") for line in seen.unprobed)
    assert verdict_of(seen).outcome == "passed"


def raising():
    raise KeyError("key")


@pytest.mark.parametrize(
    ("statement", "is_pythons"),
    [
        (raising, True),
        (lambda: torch.nn.functional.batch_norm(torch.ones(1, 2), None, None, training=True), True),
        (lambda: torch.ones(2).view(3), False),
        (lambda: {}["key"], False),
    ],
)
def test_a_statement_of_python_raises_or_an_operator(statement, is_pythons):
    with pytest.raises((KeyError, ValueError, RuntimeError)) as caught:
        statement()
    assert is_of_python(caught.value) == is_pythons
    assert not is_of_python(ValueError())
