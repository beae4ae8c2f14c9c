"""The decision is safe, do not upgrade, or cannot say; unknown outcomes are never safe."""

import pytest

from compilegate.records.environment import Device
from compilegate.upgrade.case_comparison import CaseComparison
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.decision import decide
from compilegate.upgrade.verdict_changes import Change
from tests.unit.making import make_environment, make_header, make_inventory

H200 = (Device(kind="cuda", name="NVIDIA H200", memory_bytes=1, driver="550"),)
EFFECT = {"broken": "broken", "regressed": "worse", "fixed": "fixed", "improved": "better"}


def comparison(*kinds, versions=("2.14.1+cu130", "2.15.0+cu130"), doubts=(), devices=(H200, H200)):
    cases = []
    for index, word in enumerate(kinds):
        aspect, kind = ("slowdown", "regressed") if word == "slower" else ("forward", word)
        change = Change(aspect, EFFECT.get(kind, "note"), f"text {index}")
        doubt = f"doubt {index}" if index in doubts else ""
        case = f"m{index}-cuda-infer-f32-default-static"
        cases.append(CaseComparison(case, kind, (change,), doubt))
    headers = [
        make_header(
            planned=[item.case for item in cases],
            environment=make_environment(versions={"torch": version}, devices=found),
        )
        for version, found in zip(versions, devices, strict=True)
    ]
    return Comparison(*headers, tuple(cases))


def test_the_sentence_that_a_release_manager_reads():
    kinds = ["broken"] * 2 + ["slower"] + ["inconclusive"] * 3 + ["unchanged"] * 306
    decision = decide(comparison(*kinds))
    assert str(decision) == (
        "torch 2.14.1 → 2.15.0 on NVIDIA H200: do not upgrade: 2 broken, 1 slower "
        "(312 cases, 3 inconclusive)"
    )
    assert decision.exit_status == 1


@pytest.mark.parametrize(
    ("kinds", "text", "status"),
    [
        (["unchanged"] * 3, "safe (3 cases)", 0),
        (["unchanged"], "safe (1 case)", 0),
        (
            ["unchanged", "fixed", "improved", "new", "inconclusive", "not comparable"],
            "safe (6 cases, 1 inconclusive, 1 not comparable, 1 fixed, 1 improved, 1 new)",
            0,
        ),
        (["accepted"], "safe (1 case, 1 accepted)", 0),
        (["regressed", "slower", "fixed"], "do not upgrade: 1 regressed, 1 slower", 1),
        (["broken", "new"], "do not upgrade: 1 broken (2 cases, 1 new)", 1),
        ([], "cannot say: neither run planned any case (0 cases)", 2),
        (["new", "new"], "cannot say: the runs have no case in common (2 cases, 2 new)", 2),
        (["not comparable"], "cannot say: nothing can be compared: forward: text 0", 2),
    ],
)
def test_each_answer_has_its_exit_status(kinds, text, status):
    decision = decide(comparison(*kinds))
    assert text in str(decision)
    assert decision.exit_status == status


def test_doubt_keeps_the_answer_from_being_safe():
    decision = decide(comparison("unchanged", "gone", doubts=[1]))
    assert str(decision).endswith(
        ": cannot say: 1 gone, m1-cuda-infer-f32-default-static: doubt 1 (2 cases, 1 gone)"
    )
    assert decision.exit_status == 2
    several = decide(comparison("new", "gone", "gone", "unchanged", doubts=[0, 1, 2]))
    assert "1 new, 2 gone, first m0-cuda-infer-f32-default-static: doubt 0" in several.because


def test_nothing_conclusive_is_not_safe():
    assert decide(comparison("inconclusive", "new")).answer == "cannot say"
    assert decide(comparison("inconclusive", "unchanged")).answer == "safe"


def test_one_worse_case_decides_however_many_are_missing():
    decision = decide(comparison("broken", "gone", "gone", doubts=[1, 2]))
    assert decision.answer == "do not upgrade"
    assert "2 gone" in str(decision)


def test_accepted_costs_are_counted():
    cost = Change("speedup", "note", "accepted: 12% slower", accepted=True)
    cases = (
        CaseComparison("a-cpu-infer-f32-default-static", "unchanged", (cost,)),
        CaseComparison("b-cpu-infer-f32-default-static", "unchanged"),
    )
    header = make_header(planned=[item.case for item in cases])
    decision = decide(Comparison(header, header, cases))
    assert (decision.answer, decision.exit_status) == ("safe", 0)
    assert str(decision).endswith("(2 cases, 1 with an accepted cost)")


@pytest.mark.parametrize(
    ("versions", "where"),
    [
        (("2.14.1+cpu", "2.15.0+cu130"), "torch 2.14.1 → 2.15.0 on"),
        (("2.15.0+cpu", "2.15.0+cpu"), "torch 2.15.0 → 2.15.0 on"),
        (("2.15.0+cu126", "2.15.0+cu130"), "torch 2.15.0+cu126 → 2.15.0+cu130 on"),
    ],
)
def test_the_title_names_builds_where_only_builds_differ(versions, where):
    assert decide(comparison("unchanged", versions=versions)).where.startswith(where)


def test_both_devices_are_named_where_they_differ():
    other = (Device(kind="cuda", name="NVIDIA A100", memory_bytes=1),)
    assert decide(comparison("unchanged", devices=(other, H200))).where.endswith(
        "on NVIDIA A100 → NVIDIA H200"
    )


OTHER = {
    "oneDNN 3.7.1 → 3.9": {"libraries": {**make_inventory().libraries, "oneDNN": "3.9"}},
    "OMP_NUM_THREADS 4 → 8": {"variables": {"OMP_NUM_THREADS": "8"}},
    "inductor.freezing default → True": {"configuration": {"inductor.freezing": "True"}},
    "sympy 1.14.0 → 1.15.0": {
        "distributions": {**make_inventory().distributions, "sympy": "1.15.0"}
    },
}


def where(before, now):
    sides = [make_header(planned=(), environment=environment) for environment in (before, now)]
    return decide(Comparison(*sides, ())).where


@pytest.mark.parametrize("difference", OTHER)
def test_two_environments_of_one_torch_are_named_by_what_differs(difference):
    other = make_environment(inventory=make_inventory(**OTHER[difference]))
    assert where(make_environment(), other).startswith(f"torch 2.15.0 → 2.15.0, {difference} on")


def test_an_environment_with_another_cache_and_another_clock_is_the_same():
    twin = make_environment(
        platform="Linux-6.9",
        inventory=make_inventory(
            variables={"OMP_NUM_THREADS": "4", "TORCHINDUCTOR_CACHE_DIR": "/tmp/b"},
            machine={"governor": "powersave", "kernel": "6.9"},
        ),
    )
    assert where(make_environment(), twin).startswith("torch 2.15.0 → 2.15.0 on")


def test_what_comes_with_another_torch_is_not_named():
    other = make_environment(
        versions={"torch": "2.16.0+cpu"},
        inventory=make_inventory(libraries={"oneDNN": "3.9", "OpenMP": "x", "glibc": "2.39"}),
    )
    assert where(make_environment(), other).startswith("torch 2.15.0 → 2.16.0 on")


def test_a_package_that_an_old_run_does_not_name_is_not_named():
    old = make_environment(inventory=None)
    new = make_environment(versions={"torch": "2.15.0+cpu", "timm": "1.0.29"})
    assert where(old, new).startswith("torch 2.15.0 → 2.15.0 on")
    with_inventory = make_environment()
    assert where(with_inventory, new).startswith("torch 2.15.0 → 2.15.0, timm none → 1.0.29 on")
