"""``--attribute``: which distribution makes a case worse, in real environments between two."""

import sys

import pytest

from compilegate.__main__ import main
from compilegate.upgrade.costs import PAIRED
from tests.integration.conftest import BREAKS, FORWARD, ZOOS
from tests.venvs import install, make_venv

pytestmark = pytest.mark.long

UPGRADE = "suites/test_upgrade.py"
GADGET, NOTHING = (f"uses_{what}-cpu-infer-f32-default-static" for what in ("gadget", "nothing"))
CASES = ("--zoo", str(ZOOS / "gadgets.py"), "--cases", GADGET, "--cases", NOTHING)
CAUSE = "gadget 1.0 → 2.0 alone"

SCALE = "def scale(x):\n    return x * 2.0\n"
BREAKING_SCALE = """
import torch

def scale(x):
    torch._dynamo.graph_break()
    return x * 2.0
"""


@pytest.fixture
def both(tmp_path):
    """Two environments: the candidate's gadget breaks the graph, its bystander is harmless."""
    old = make_venv(tmp_path / "old", sees_torch=True)
    install(tmp_path / "old", "gadget", "1.0", SCALE, ["torch"])
    install(tmp_path / "old", "bystander", "1.0")
    new = make_venv(tmp_path / "new", sees_torch=True)
    install(tmp_path / "new", "gadget", "2.0", BREAKING_SCALE, ["torch"])
    install(tmp_path / "new", "bystander", "2.0")
    return ("--baseline-python", old, "--candidate", new)


def test_the_distribution_that_breaks_the_graph_is_named_alone(
    compilegate, both, write, tmp_path, capsys
):
    keys = [cost.key for cost in PAIRED if not cost.is_exact]
    untimed = write("untimed.toml", "".join(["[[budget]]\n", *(f"{key} = 1e6\n" for key in keys)]))
    session = compilegate(
        *(FORWARD, BREAKS, UPGRADE, *CASES, "--budgets", untimed, "--save", "two"),
        *(*both, "--attribute"),
    )
    assert session.status == 1, session.output
    assert f"do not upgrade: 1 broken by {CAUSE} (2 cases)" in session.output
    text = " ".join(session.output.split())  # long paths wrap
    assert f" broken by {CAUSE}: {GADGET}; to try it, use {tmp_path}/.envi" in text
    assert "trying 1 case with bystander 1.0 → 2.0" in session.output
    (found,) = session.run("two").attributions.values()
    assert (found.case, found.cause, found.environments) == (GADGET, CAUSE, 4)
    assert session.run("two").closing is not None

    allowed = ("--budgets", untimed)  # a busy machine must not decide
    replayed = compilegate(
        *(FORWARD, BREAKS, UPGRADE, *allowed, "--replay", "two", "--save", "again")
    )
    assert f"do not upgrade: 1 broken by {CAUSE} (2 cases)" in replayed.output
    assert session.run("again").attributions == session.run("two").attributions

    assert main(["compare", "two.baseline", "two", "--runs", str(session.runs)]) == 1
    assert f"broken by {CAUSE}: {GADGET}" in capsys.readouterr().out


def test_attribution_is_refused_without_a_version_in_use(compilegate):
    session = compilegate(FORWARD, *CASES, "--attribute")
    assert session.status == 4
    assert "name the interpreter of the version in use with --baseline-python" in session.output


@pytest.mark.parametrize("good", [(), ("--candidate", sys.executable)])
def test_a_candidate_that_cannot_be_run_is_refused_before_compiling(compilegate, runs, good):
    baseline = ("--baseline-python", sys.executable)
    session = compilegate(FORWARD, *CASES, *baseline, *good, "--candidate", "/nowhere/python")
    assert session.status == 4
    assert "--candidate /nowhere/python cannot be run" in session.output
    assert not runs.exists()
