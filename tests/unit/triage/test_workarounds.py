"""A report says what was tried in vain, and says once that no submodule fails alone."""

from dataclasses import replace

import pytest

from compilegate.culprits.grouping import culprits
from compilegate.judging.budget import Budget
from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.scripts.running import Ended, Verified
from compilegate.triage.scripts.script import Script
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.place import Place
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.suspect import Suspect
from compilegate.triage.steps import workarounds
from tests.unit.failing import WRONG, A, broken, failures, wrong
from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_compilation,
    make_environment,
    make_error,
    make_observation,
)

ITEM = replace(
    make_break("Unsupported Tensor.item() call"),
    hint="Set `torch._dynamo.config.capture_scalar_outputs = True`",
)
REMEDY = "torch._dynamo.config.capture_scalar_outputs = True"
EAGER = 'torch.compiler.set_stance("force_eager")'


def suspect_of(observation):
    found = failures(observation)
    culprit, *_ = culprits(found)
    return Suspect(culprit, observation, [found[0].verdict], lambda case: Budget(), "2.15.0")


class Trials:
    """Each trial of a case has the same outcome, except those of stances."""

    def __init__(self, suspect, state):
        self.suspect, self.state = suspect, state

    def of_part(self, trial):
        return Seen("good" if trial.stance else self.state)


def text_of(observation, **fields):
    made = Findings(stage=Stage("eager", {"eager": Seen("bad")}), **fields)
    return issue.text(suspect_of(observation), made, make_environment(), "observe", "x = 1")


@pytest.mark.parametrize(
    ("state", "helps", "helpless"),
    [("bad", False, [REMEDY]), ("good", True, []), ("unobservable", False, [])],
)
def test_a_remedy_that_does_not_help_is_named(state, helps, helpless):
    observation = broken(A, ITEM)
    found = Findings(stage=Stage("eager", {"eager": Seen("bad")}))
    workarounds.find(Trials(suspect_of(observation), state), found, lambda line: None)
    assert (REMEDY in [code for code, _ in found.workarounds]) == helps
    assert found.helpless == helpless
    text = text_of(observation, workarounds=found.workarounds, helpless=found.helpless)
    assert f"{EAGER}  # compiles nothing" in text
    assert (f"Tried without success: `{REMEDY}`." in text) == bool(helpless)


@pytest.mark.parametrize(("path", "count"), [("", 0), ("block", 1)])
def test_that_no_submodule_fails_alone_is_said_once(path, count):
    bad, good = Seen("bad"), Seen("good")
    name = f"{path}.inp".strip(".")
    place = Place(path, "Net", tried={name: good}, without={name: bad}, is_complete=True)
    place.is_dissected = True
    text = text_of(wrong(A), place=place)
    assert text.count("**Submodule:** `inp` does not fail when compiled") == 1 - count
    assert text.count("None of the submodules of `block` fails alone. It still fails") == count
    assert (
        "It still fails with each submodule left to eager:\nthe fault is in the code of the `f"
        in text
    )


@pytest.mark.parametrize("state", ["good", "bad", "unobservable"])
def test_options_that_the_script_passes_with_are_tried_on_the_case(state):
    made = Findings(stage=Stage("inductor", {"inductor": Seen("bad")}))
    made.bisected = {"helps": [{"cpp.simdlen": 1}]}
    workarounds.find(Trials(suspect_of(wrong(A)), state), made, lambda line: None)
    code, how = made.workarounds[0]
    assert code == "torch.compile(model, options={'cpp.simdlen': 1})"
    ways = {"good": "the case passes", "bad": "repro.py passes, and the case fails"}
    assert how == ways.get(state, "repro.py passes with these options of Inductor")
    assert (made.notes == [workarounds.ANOTHER]) == (state == "bad")


REFUSED = "InductorError: /tmp/x.main.cpp:53:42: error: 'broken' was not declared in this scope"


@pytest.mark.parametrize(
    ("printed", "helps", "concludes"),
    [
        (REFUSED, [{"cpp.simdlen": 1}], True),
        (REFUSED, [{"max_fusion_size": 1}], False),
        ("compiled code is WRONG with inductor", [{"cpp.simdlen": 1}], False),
    ],
)
def test_what_compiles_without_vectors_alone_is_said_to(printed, helps, concludes):
    verified = Verified(Ended(1, printed, 3.0), Ended(0, "", 3.0), "aot_eager")
    text = text_of(wrong(A), verified=verified, bisected={"helps": helps})
    assert ("compiles only without vectorisation" in text) is concludes


@pytest.mark.parametrize(
    ("left_out", "state", "path"),
    [
        ("CUDA graphs", "bad", ""),
        ("CUDA graphs", "good", "act"),
        ("", "bad", "act"),
    ],
)
def test_no_submodule_is_named_where_each_may_fail_in_cuda_graphs(left_out, state, path):
    cure = "default" if left_out else ""
    stage = Stage("inductor", {"inductor": Seen("bad")}, cure=cure, left_out=left_out)
    at = Place("act", "GELU", text="wrong", tried={"act": Seen("bad")}, kinds={"act": "GELU"})
    found = Findings(stage=stage, place=at)
    suspect = suspect_of(wrong(A))
    workarounds.find(Trials(suspect, state), found, lambda line: None)
    assert found.place.path == path
    text = issue.text(suspect, found, make_environment(), "observe", "")
    assert ("no single one: `act` fails when compiled alone" in text) == (not path)


@pytest.mark.parametrize("helpless", [["torch.compiler.disable on act"], []])
def test_a_submodule_that_is_not_the_only_one_is_said_to_be_one_of_several(helpless):
    text = text_of(wrong(A), place=Place("act", "GELU", text="wrong"), helpless=helpless)
    assert "**Submodule:** `act` (`GELU`) fails when compiled alone" in text
    assert ("With `act` left to eager, the case still fails" in text) == bool(helpless)


@pytest.mark.parametrize(
    ("compiled", "backend", "is_said"),
    [([0], "eager", True), ([0, 1], "eager", False), ([0], "inductor", False)],
)
def test_a_later_call_that_compiles_nothing_hints_at_a_guard(compiled, backend, is_said):
    healthy, bad = make_checked(make_error()), make_checked(make_error(**WRONG))
    calls = (make_call(outputs=healthy), make_call(outputs=bad))
    capture = make_capture(compilations=tuple(make_compilation(call) for call in compiled))
    suspect = suspect_of(make_observation(case=A, calls=calls, capture=capture))
    made = Findings(stage=Stage(backend, {backend: Seen("bad")}))
    text = issue.text(suspect, made, make_environment(), "observe", "")
    assert ("Nothing is compiled for call 2, the first wrong one" in text) == is_said


@pytest.mark.parametrize(
    ("identities", "said"),
    [(["head", "stem"], "They compute nothing"), (["stem"], "`stem` computes nothing"), ([], "")],
)
def test_a_submodule_that_an_identity_may_replace_only_breaks_the_graph(identities, said):
    both = {"head": Seen("good"), "stem": Seen("good")}
    place = Place(identities=identities, without=both, is_dissected=True)
    place.tried, place.is_complete = both, True
    text = text_of(wrong(A), place=place)
    assert "passes when one of these is left to eager: `head`, `stem`." in text
    assert ("That breaks the graph." in text) == bool(said)
    assert said in text


@pytest.mark.parametrize(("printed", "count"), [("grad[0]: shape (2, 3),", 1), ("output:", 0)])
def test_a_gradient_of_an_input_is_explained(printed, count):
    made = Verified(Ended(1, f"{printed} not close", 1.0), Ended(0, "", 1.0), "off")
    script = Script(text="x = 1", origin="the recipe of one")
    text = text_of(wrong(A), script=script, verified=made)
    assert text.count("*grad[0]*: the gradient of the first input that has one.") == count
