"""Hazards: what is judged in which version, and the page that lists them."""

import dataclasses
import importlib.util
from pathlib import Path

import pytest
from torch._dynamo.exc import TorchRuntimeError

from compilegate.judging.budget import Budget
from compilegate.observe.practices.hazards import is_refusal
from compilegate.records.hazard import Hazard, Written
from compilegate.records.practice import Practice, Step
from compilegate.suites.test_hazards import rule
from tests.unit.making import make_checked, make_error, make_observation

SCRIPT = Path(__file__).parents[2] / "docs" / "hazards.py"
REFUSED = Written(breaks=("GB0059",), refused="Unsupported: print")
PRINT = Hazard(
    name="print",
    torch="2.15.0",
    as_written=Written(breaks=("GB0059",)),
    whole=REFUSED,
    rewritten=Written(),
    breaks=("GB0059",),
)
WHOLE = Written()


def judged(hazard=PRINT, *, output=None, **changed):
    step = Step(name="print, as written", outputs=make_checked(output or make_error("output")))
    hazards = (dataclasses.replace(hazard, **changed),)
    practice = Practice(steps=(step,), graphs=1, hazards=hazards)
    return rule(
        make_observation(practices={"hazards": practice}, wants=("capture", "hazards")), Budget()
    )


def test_a_hazard_as_known_passes():
    finding = judged()
    assert finding.outcome == "passed", finding
    assert "improvements" not in finding.summary


def test_answers_that_are_blind_say_nothing_about_a_hazard():
    blind = make_error("output", scale=0.0, eager_rms=0.0, compiled_rms=0.0)
    assert judged(output=blind).outcome == "inconclusive"


def test_a_hazard_that_breaks_no_graph_is_an_improvement():
    finding = judged(as_written=Written(), whole=WHOLE)
    assert finding.outcome == "passed"
    assert finding.summary.endswith(
        "print breaks no graph (known: GB0059), print is captured by fullgraph=True"
    )


def test_a_hazard_that_breaks_no_graph_and_answers_wrongly_fails():
    wrong = make_error("output", compiled_rms=1e-3, compiled_max=1e-2)
    finding = judged(as_written=Written(), whole=WHOLE, output=wrong)
    assert finding.outcome == "failed"
    assert finding.summary.startswith("print, as written: output")


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"whole": Written(breaks=("GB0059",))}, "raises no error at the graph break GB0059"),
        ({"rewritten": REFUSED}, "refuses the rewrite: Unsupported: print"),
        ({"rewritten": Written(recompiles=1)}, "the rewrite compiles again 1 time"),
        ({"captured_whole": True}, "fullgraph=True refuses it"),
        ({"as_written": Written(breaks=("GB0007",))}, "breaks the graph with GB0007"),
        ({"as_written": Written(breaks=("GB0007", "GB0059"))}, "breaks the graph with GB0007"),
        (
            {"as_written": Written(breaks=("GB0059",) * 2, places=("m.py:2 in f", "m.py:4 in f"))},
            "breaks the graph with GB0059 at m.py:2 in f, GB0059 at m.py:4 in f, known is GB0059",
        ),
        ({"as_written": Written(breaks=("GB0059",), recompiles=1)}, "compiles again 1 time"),
    ],
)
def test_what_is_worse_than_known_fails(changed, complaint):
    finding = judged(**changed)
    assert finding.outcome == "failed"
    assert complaint in finding.summary


def test_a_hazard_that_is_known_to_break_twice_with_one_id_passes():
    twice = ("GB0059",) * 2
    assert judged(as_written=Written(breaks=twice), breaks=twice).outcome == "passed"


@pytest.mark.parametrize("version", ["2.16.0", "2.16.0a0+git1", "3.0.0"])
def test_a_later_version_may_name_a_break_otherwise_but_not_add_one(version):
    renamed = {"as_written": Written(breaks=("GB9999",)), "torch": version}
    assert judged(**renamed).outcome == "passed"
    more = {"as_written": Written(breaks=("GB0059", "GB9999")), "torch": version}
    assert judged(**more).outcome == "failed"


def test_an_earlier_version_is_judged_by_its_answers():
    worse = {"as_written": Written(breaks=("GB0001", "GB0002"), recompiles=5), "rewritten": REFUSED}
    assert judged(torch="2.13.0", **worse).outcome == "passed"
    silent = Written(breaks=("GB0059",))
    assert judged(torch="2.13.0", whole=silent).outcome == "failed"


def test_an_operator_that_raises_while_dynamo_traces_it_is_a_refusal_where_it_breaks_graphs():
    link = "For more details, please visit: https://meta-pytorch.github.io/site/gb/gb4315.html"
    assert is_refusal(TorchRuntimeError(f"RuntimeError when making fake tensor call. {link}"))
    assert not is_refusal(TorchRuntimeError("RuntimeError when making fake tensor call"))
    assert not is_refusal(RuntimeError("out of memory"))


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("hazards", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script):
    assert script.PAGE.read_text() == script.page(), "run python docs/hazards.py"


def test_the_catalogue_has_thirty_hazards_that_break_or_compile_again(script):
    hazards = [hazard for catalogue in script.CATALOGUES for hazard in catalogue.hazards]
    assert len({hazard.name for hazard in hazards}) == len(hazards)
    assert sum(bool(hazard.breaks or hazard.recompiles) for hazard in hazards) >= 30


@pytest.mark.parametrize("name", ["cond", "where", "compiler.allow_in_graph", "library.custom_op"])
def test_a_rewrite_uses_each_way_that_pytorch_offers(script, name):
    rewrites = [hazard.rewrite for c in script.CATALOGUES for hazard in c.hazards]
    assert any(f"`torch.{name}" in rewrite for rewrite in rewrites)
