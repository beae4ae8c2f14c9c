"""Culprits in which triage finds one cause are one, and causes that look alike stay apart."""

import pytest

from compilegate.culprits import known
from compilegate.culprits.grouping import Culprit, Failure, counted, culprits
from compilegate.fuzzing.program import Program, Statement, Value
from compilegate.judging.budget import Budget
from compilegate.records.part import LineDiffers
from compilegate.triage.findings import Findings
from compilegate.triage.scripts.script import Script
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.place import Place
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.suspect import Suspect
from compilegate.triage.steps.causes import cause_of, known_entries
from tests.unit.making import make_failed_observation, make_observation, make_verdict

CASE = "one-cpu-infer-f32-default-static"
DECOMPOSED = "aot_eager_decomp_partition"
GELU = {"subsystem": "decomposition", "what": "aten.gelu.default"}


def cause(  # noqa: PLR0917
    backend=DECOMPOSED,
    operator="gelu",
    kind="GELU",
    bisected=GELU,
    aspect="forward",
    text="y = gelu(x)",
    state="bad",
    ended="",
    line="",
    case=CASE,
):
    """The cause of a culprit in which triage found this."""
    observation = make_observation(case=case)
    if ended:
        observation = make_failed_observation("crashed", case, kind=ended, message="died")
    culprit = Culprit(("wrong",), "wrong", aspect, [case], [aspect])
    verdict = make_verdict("failed", case=case, aspect=aspect)
    suspect = Suspect(culprit, observation, [verdict], lambda case: Budget(), "2.15.0")
    statement = Statement(text=text, makes=("y",), reads=("x",), operator=operator)
    values = (Value(name="x", text="torch.ones(2)"),)
    program = Program(name="p", values=values, statements=(statement,), returns=("y",))
    findings = Findings(
        stage=Stage(backend, {backend: Seen(state)}),
        place=Place(path="act", kind=kind, operator=operator),
        script=Script(text="", origin="", program=program) if operator else None,
        bisected=bisected,
        line=LineDiffers(source=line, right="1", wrong="2") if line else None,
    )
    return cause_of(suspect, findings)


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "Mlp"},
        {"bisected": {}},
        {"operator": "gelu_"},
        {"text": "y = gelu(x, approximate='none')", "operator": "gelu"},
        {"operator": ""},
    ],
    ids=["another submodule", "no bisection", "in place", "an option", "bisected alone"],
)
def test_one_operator_at_one_stage_is_one_cause(other):
    first = cause(text="y = gelu(x, approximate='none')") if "text" in other else cause()
    assert cause(**other).is_that_of(first)


@pytest.mark.parametrize(
    "other",
    [
        {"backend": "inductor"},
        {"operator": "silu"},
        {"operator": "", "bisected": {}},
        {"aspect": "gradients"},
        {"bisected": {"subsystem": "decomposition", "what": "aten.erf.default"}},
        {"text": "y = gelu(x, approximate='tanh')"},
        {"ended": "SIGSEGV"},
        {"state": "good"},
    ],
    ids=[
        "another stage",
        "another operator",
        "no operator",
        "only gradients",
        "another decomposition",
        "another option",
        "a crash",
        "not seen again",
    ],
)
def test_causes_that_look_alike_stay_apart(other):
    assert not cause(**other).is_that_of(cause())


def test_without_an_operator_the_bisection_names_the_cause():
    def fused(named="mul_3", kind="Block"):
        lowered = {"subsystem": "lowerings", "what": named}
        return cause("inductor", operator="", kind=kind, bisected=lowered)

    assert fused("mul_12").is_that_of(fused())
    assert not fused("add_3").is_that_of(fused())
    assert fused("mul_12", kind="").is_that_of(fused(kind="Mlp"))
    assert not fused("add_3", kind="").is_that_of(fused(kind=""))
    nothing = cause("inductor", operator="", bisected={})
    assert not nothing.is_that_of(nothing)
    number = {"subsystem": "post_grad_passes", "what": "pass_pattern_{}"}
    one, two = (cause(bisected=number | {"what": f"pass_pattern_{n}"}) for n in (1, 2))
    assert not one.is_that_of(two)
    number["what"] = "pass_pattern_1"  # replaces many patterns
    one, two = (cause(operator="", bisected=number, kind=kind) for kind in ("Block", "Mlp"))
    assert one.is_that_of(one)
    assert not one.is_that_of(two)
    attend, fold = ([{"name": name}] for name in ("_sfdp_pattern_1", "fold"))
    patterns = ([attend, attend], [attend, fold], [attend, attend + fold])
    for (here, there), is_one in zip(patterns, (True, False, False), strict=True):
        one = cause("inductor", operator="", bisected=number | {"patterns": here}, kind="Block")
        two = cause("inductor", operator="", bisected=number | {"patterns": there}, kind="Mlp")
        assert one.is_that_of(two) is is_one


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_before_decompositions_one_class_is_one_cause(backend):
    one = cause(backend, operator="", bisected={})
    assert one.is_that_of(one)
    assert not cause(backend, operator="", bisected={}, kind="Mlp").is_that_of(one)
    whole = cause(backend, operator="", bisected={}, kind="")
    assert not whole.is_that_of(whole)


def test_what_triage_joined_is_one_culprit_in_reports(tmp_path):
    def failures(*models, aspect="forward"):
        for model in models:
            case = f"{model}-cpu-infer-f32-default-static"
            verdict = make_verdict("failed", case=case, aspect=aspect, summary="call 1: wrong")
            yield Failure(make_observation(case=case), verdict)

    found = [*failures("one", "two", "three"), *failures("one", aspect="memory")]
    one, two, three, memory = culprits(found)
    joined = one.joined(two)
    assert (counted([one, two, three]), counted([joined, three])) == (
        "3 culprits in 3 cases",
        "2 culprits in 3 cases",
    )
    file = tmp_path / "culprits.toml"
    file.write_text("".join(known_entries(joined, 'triage found "gelu"')), encoding="utf-8")
    seen = culprits(found, known.read([file]))
    assert [culprit.cases for culprit in seen] == [joined.cases, three.cases, memory.cases]
    assert seen[0].known == ['triage found "gelu"']


@pytest.mark.parametrize(
    ("backend", "lines", "is_one"),
    [
        ("eager", ("net.py:8", "net.py:8"), True),
        ("aot_eager", ("net.py:8", "net.py:8"), True),
        ("eager", ("net.py:8", "net.py:9"), False),
        ("eager", ("", ""), False),
        (DECOMPOSED, ("net.py:8", "net.py:8"), False),
    ],
)
def test_one_line_that_is_wrong_first_is_one_cause(backend, lines, is_one):
    found = {"backend": backend, "operator": "", "bisected": {}}
    first, second = (
        cause(**found, kind=kind, line=line)
        for kind, line in zip(("Gate", "Net"), lines, strict=True)
    )
    assert second.is_that_of(first) is is_one


@pytest.mark.parametrize(
    ("backend", "line", "case", "ended", "is_one"),
    [
        ("eager", "net.py:8", CASE, "", True),
        ("eager", "net.py:9", CASE, "", False),
        ("eager", "net.py:8", f"other-{CASE.partition('-')[2]}", "", False),
        ("eager", "net.py:8", CASE, "SIGSEGV", False),
        (DECOMPOSED, "net.py:8", CASE, "", False),
    ],
    ids=["one line", "another line", "another model", "a crash", "decompositions"],
)
def test_one_line_of_a_model_is_one_cause_in_all_aspects(backend, line, case, ended, is_one):
    found = {"backend": backend, "operator": "", "bisected": {}}
    output = cause(**found, line="net.py:8")
    buffer = cause(**found, line=line, aspect="side_effects", case=case, ended=ended)
    assert buffer.is_that_of(output) is is_one
