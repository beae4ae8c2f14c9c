"""The family ``regressions`` on the installed torch: what is known to be wrong, nothing else."""

import subprocess
from importlib.metadata import version

import pytest

from compilegate.judging import budgets_toml
from compilegate.judging.aspects import ASPECTS
from compilegate.judging.budgets import Machine
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.records.case import Case
from compilegate.runs import files
from compilegate.zoo import registry
from compilegate.zoo.tiers import cases_of
from tests.integration.conftest import CHECKOUT, command, surroundings
from tests.once import once

pytestmark = pytest.mark.long

MODELS = [model for model in registry.load().values() if model.family == "regressions"]
NAMES = {model.name for model in MODELS}
CASES = [case for model in MODELS for case in cases_of(model, "cpu")]
BUDGETS = budgets_toml.read([], sorted(SHIPPED_BUDGETS.glob("*.toml")))
#: The suites that the bugs fail. Times and memory of these models say nothing.
SUITES = sorted(
    {
        f"suites/test_{entry.expected.aspect}.py"
        for entry in BUDGETS.entries
        if entry.expected and entry.expected.aspect and entry.selectors.get("model") in NAMES
    }
)
#: Each compiles with the real backend, cold here: minutes.
TIMEOUT_S = 3000


def expected(case: Case, *, strict: bool) -> set[str]:
    """The aspects of a case that the installed torch is known to fail, always or perhaps."""
    budget = BUDGETS.budget(case, Machine(), version("torch"))
    return {
        aspect
        for failure in budget.expected_failures
        for aspect in ([failure.aspect] if failure.aspect else ASPECTS)
        if failure.strict or not strict
    }


def observe(folder):
    """Run one session over all of them, with its run in a folder."""
    chosen = [word for case in CASES for word in ("--cases", case.id)]
    words = command(*SUITES, *chosen, "-m", "cpu", "-n", "2", runs=folder, backend="inductor")
    done = subprocess.run(
        words,
        cwd=CHECKOUT,
        env=surroundings(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return once(
        tmp_path_factory,
        "regressions",
        lambda folder: observe(folder / "runs"),
        lambda folder: files.read(*(folder / "runs").glob("*.jsonl")),
    )


def test_there_are_enough_of_them():
    assert len({case.model for case in CASES}) >= 24


def test_each_names_its_issue_in_its_expected_failures_if_it_has_one():
    named = ("gh", "unreported")
    expected = [entry for entry in BUDGETS.entries if entry.expected]
    entries = [e for e in expected if e.selectors.get("model", "").startswith(named)]
    assert {e.selectors["model"] for e in entries} == {model.name for model in MODELS}
    for entry in entries:
        number = entry.selectors["model"].partition("_")[0].removeprefix("gh")
        issue = f"https://github.com/pytorch/pytorch/issues/{number}"
        assert entry.expected.issue == ("" if number == "unreported" else issue)


def test_all_were_observed_and_nothing_failed(run):
    assert set(run.observations) == {case.id for case in CASES}
    fine = ("passed", "expected_failure", "skipped")
    other = [verdict for verdict in run.verdicts.values() if verdict.outcome not in fine]
    # Inductor's max-pool on a CPU returns the other zero for a row of zeros.
    assert all(v.outcome == "inconclusive" and "sign of zero" in v.summary for v in other), other


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_known_bug_is_an_expected_failure(run, case):
    failed = {
        aspect
        for (of, aspect), verdict in run.verdicts.items()
        if of == case.id and verdict.outcome == "expected_failure"
    }
    seen = {aspect for of, aspect in run.verdicts if of == case.id}
    assert expected(case, strict=True) & seen <= failed <= expected(case, strict=False)
