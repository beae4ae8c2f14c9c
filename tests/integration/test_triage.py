"""``compilegate triage``: stage, place and script of each culprit, on a PyTorch that is broken.

A ``sitecustomize`` breaks it in every interpreter, so that a script with torch alone shows it, too.
"""

import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from compilegate.runs import files
from tests.integration.conftest import (
    CHECKOUT,
    FORWARD,
    ZOOS,
    command,
    run_to_its_end,
    surroundings,
)

pytestmark = pytest.mark.long

BROKEN = """
import importlib.abc
import importlib.util
import os
import sys

def plant(module):
    import torch
    aten = torch.ops.aten

    def divide(x, y):
        inverse = aten.pow.Tensor_Scalar(y, -1) if isinstance(y, torch.Tensor) else 1 / y
        return aten.mul.Tensor(aten.mul.Tensor(x, inverse), 1.01)

    def floor(x, y, rounding_mode=None):
        return aten.add.Tensor(aten.floor.default(aten.mul.Tensor(x, 1 / y)), 1)

    module.decompositions[aten.div.Tensor] = divide
    module.decompositions[aten.div.Tensor_mode] = floor
    module.decompositions[aten.special_erfcx.default] = lambda x: os.abort()

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch._inductor.decomposition":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (run(module), plant(module))
        return spec

sys.meta_path.insert(0, Finder())
"""
#: The line that recompilations are for.
COUNTED = "tests/zoos/triaged.py:{}".format(
    next(n for n, line in enumerate((ZOOS / "triaged.py").open(), 1) if "seen.append(0)" in line)
)
DECOMPOSED = "aot_eager_decomp_partition"
#: Models that are wrong in a probing call alone, and in which submodule.
PROBED = {"one_row": "`1` (`OneRow`)", "transposed": "`0` (`Transposed`)"}


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """The variables of a broken PyTorch, which uses no caches of a whole one."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "sitecustomize.py").write_text(BROKEN)
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    return {"PYTHONPATH": f"{folder}:{CHECKOUT}", **cache, "OPENAI_API_KEY": "sk-never-to-be-seen"}


@pytest.fixture(scope="module")
def session(broken, tmp_path_factory):
    runs = tmp_path_factory.mktemp("triage") / "runs"
    zoo = ("--zoo", str(ZOOS / "triaged.py"), "--save", "red")
    models = ("divides", "divides_too", "floors", "aborts", "healthy")
    names = [word for name in models for word in ("--models", name)]
    words = command(FORWARD, *zoo, *names, "-m", "cpu", runs=runs, backend=DECOMPOSED)
    junit = ("--junitxml", str(runs.parent / "junit.xml"))
    return run_to_its_end([*words, "--triage", "--triage-minutes", "4", *junit], broken, runs)


def triage(runs, *words, env):
    """Run the command; return what it printed and its exit status."""
    ended = run_to_its_end(
        [sys.executable, "-m", "compilegate", "triage", "--runs", str(runs), *words], env, runs
    )
    return ended.output, ended.status


@pytest.fixture(scope="module")
def triaged(session):
    """The folders of the culprits by model, and the output."""
    out = session.runs.parent / ".triage" / "red"
    assert session.status == 1, session.output
    folders = {re.match(r"\d+-(\w+)-", path.name)[1]: path for path in out.glob("[0-9]*")}
    return folders, session.output


def run_script(path, *words, env):
    done = subprocess.run(
        [sys.executable, "-P", str(path), *words],
        env=surroundings(path, env),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_the_run_is_red_where_pytorch_is_broken(session):
    assert {
        case.partition("-")[0]
        for (case, _), v in session.run().verdicts.items()
        if v.outcome == "failed"
    } == {"divides", "divides_too", "floors", "aborts"}


def test_stage_submodule_and_operator_of_wrong_numbers_are_found(triaged):
    folders, output = triaged
    report = (folders["divides"] / "report.md").read_text()
    assert "**Stage:** decompositions or partitioning" in report, output
    assert "**Submodule:** `1.gate` (`Gate`)" in report, output
    assert "**Operator:** `truediv`" in report or "**Operator:** `div`" in report, output
    assert "the fault is in the code of the `forward` of `Gate` itself" in report
    assert "**Smaller:** It still fails at `batch=2` (the case has 24)." in report
    assert "`decomposition`" in report
    assert 'torch.compile(model, backend="aot_eager")' in report
    assert 'get_submodule("1.gate")' in report


def test_the_script_shows_it_with_torch_alone_and_not_without_the_stage(triaged, broken):
    script = triaged[0]["divides"] / "repro.py"
    text = script.read_text()
    assert "compilegate" not in text
    assert len(text.splitlines()) <= 60
    status, output = run_script(script, env=broken)
    assert status == 1
    assert all(word in output for word in ("eager", "compiled", "float64", "WRONG"))
    assert run_script(script, env={"PYTHONPATH": ""})[0] == 0  # a whole PyTorch


def test_a_crash_has_its_stage_its_submodule_and_a_script_that_dies(triaged):
    folders, output = triaged
    report = (folders["aborts"] / "report.md").read_text()
    assert "**Stage:** decompositions or partitioning" in report, output
    assert "**Submodule:** `2` (`ErrorFunction`)" in report, output
    without = "`python repro.py aot_eager`, without the stage: exit status 0"
    assert f"died of SIGABRT; {without}" in report
    assert 'torch.compiler.set_stance("force_eager")' in report
    assert "eager_on_recompile" not in report  # the first call dies


def test_one_cause_in_two_models_is_one_culprit_and_another_that_looks_alike_is_not(
    triaged, session
):
    folders, output = triaged
    assert folders.keys() == {"divides", "floors", "aborts"}, output
    assert "3 culprits in 4 cases by cause; by evidence 4 culprits in 4 cases" in output
    report = (folders["divides"] / "report.md").read_text()
    assert "In 2 cases: divides-cpu-infer-f32-default-static, divides_too-cpu-infer-f32" in report
    (other,) = (folders["divides"] / "other-reports").iterdir()
    assert f"`other-reports/{other.name}` has its report." in report
    recognised = (other / "report.md").read_text()
    steps = "sizes, script, bisection and line"
    assert f"{steps}: an earlier culprit has the same cause" in recognised
    assert 'torch.compile(model, backend="aot_eager")' in recognised
    assert 'torch.compiler.set_stance("force_eager")' in recognised
    assert "by torch.compiler.disable on 2: nothing would be left to compile" in recognised
    assert re.search(r"\*\*Operator:\*\* `(true)?div`", recognised)
    assert "**Operator:** `div`" in (folders["floors"] / "report.md").read_text()
    joined = ("--known", str(folders["divides"].parent / "culprits.toml"))
    for known, count in (((), 3), (joined, 3)):
        words = [sys.executable, "-m", "compilegate", "markdown", "red", *known]
        words += ["--runs", str(session.runs)]
        page = run_to_its_end(words, {}, session.runs).output
        assert f"{count} culprits in 4 cases" in page


def test_the_report_of_junit_has_the_joined_culprits(triaged, session):
    root = ElementTree.parse(session.runs.parent / "junit.xml").getroot()
    found = {each.attrib["name"]: each.attrib["value"] for each in root.iter("property")}
    assert found["culprits"] == "3 culprits in 4 cases"
    assert {name for name in found if name.startswith("culprit ")} == {
        "culprit 1",
        "culprit 2",
        "culprit 3",
    }


def test_a_report_says_what_ran_and_keeps_secrets(triaged):
    for folder in triaged[0].values():
        about = (folder / "environment.txt").read_text()
        assert re.search(r"^torch \d", about, re.MULTILINE)
        for path in folder.glob("*.*"):
            assert "sk-never" not in path.read_text()
            assert str(path.home()) not in path.read_text()


def test_nothing_is_triaged_where_nothing_fails(stored, runs):
    path = stored("sound")
    assert files.read(path).verdicts
    output, status = triage(runs, "stored", env={})
    assert (output.splitlines()[-1], status) == ("nothing to triage", 0)


def test_the_option_triages_what_a_session_finds(compilegate, tmp_path):
    """The session's own zoo, backend and run file reach the trials."""
    zoo = ("--zoo", str(ZOOS / "triaged.py"), "--models", "counts", "-m", "cpu", "--save", "red")
    triaged = ("--triage", "--triage-minutes", "3")
    session = compilegate("suites/test_recompiles.py", *zoo, *triaged, backend="eager")
    assert session.status == 1
    (written,) = (tmp_path / ".triage" / "red").glob("1-counts-recompiles/report.md")
    text = written.read_text()
    assert "**Stage:** Dynamo: `eager`" in text
    assert "| `eager` | fails |" in text
    assert 'torch.compiler.set_stance("eager_on_recompile")' in text
    assert f"{written.parent}: Dynamo, {COUNTED}, script verified" in session.output
    assert f"triage found Dynamo, {COUNTED}: " in (written.parents[1] / "culprits.toml").read_text()
    assert f"**Line:** `{COUNTED}`" in text
    words = ["html", "red", "--runs", str(session.runs), "-o", str(tmp_path / "a.html")]
    page = run_to_its_end([sys.executable, "-m", "compilegate", *words], None, session.runs)
    assert page.status == 1, page.output
    link = 'href=".triage/red/1-counts-recompiles/report.md"'
    assert link in (tmp_path / "a.html").read_text()
    assert session.run("red").closing is not None


def test_each_break_has_its_own_script_and_guards_of_one_script_are_joined(compilegate, tmp_path):
    zoo = ("--zoo", str(ZOOS / "triaged.py"), "--models", "two_breaks*", "-m", "cpu")
    suites = ("suites/test_graph_breaks.py", "suites/test_recompiles.py")
    session = compilegate(*suites, *zoo, "--save", "red", "--triage", backend="eager")
    folder = tmp_path / ".triage" / "red"
    breaks = {
        path.parent.name: path.read_text()
        for path in folder.glob("*-two_breaks_two_guards-graph_breaks/report.md")
    }
    reasons = {"Failed to trace builtin operator", "Call to `torch._dynamo.graph_break()`"}
    for text in breaks.values():
        (reason,) = [reason for reason in reasons if reason in text]
        reasons.remove(reason)
        assert "**The script is not verified**" not in text
        assert "made from the recipe of two_breaks_two_guards: exit status 1" in text
        assert "budget key" not in text
        helps = "torch._dynamo.config.reorderable_logging_functions |= {print}"
        assert (helps in text) == ("Failed to trace builtin operator" in text)
    assert not reasons
    (joined,) = folder.glob("*-two_breaks_two_guards-recompiles/other-reports/*/report.md")
    assert (
        f"`other-reports/{joined.parent.name}` has its report."
        in joined.parents[2].joinpath("report.md").read_text()
    )
    assert "3 culprits in 1 case by cause; by evidence 4 culprits in 1 case" in session.output


def test_what_timed_rounds_show_and_what_is_not_compiled_has_a_script(compilegate, tmp_path):
    zoo = ("--zoo", str(ZOOS / "triaged.py"), "--models", "tagged", "--models", "refusing")
    suites = ("suites/test_recompiles.py", "suites/test_speedup.py", "suites/test_compile_time.py")
    session = compilegate(*suites, *zoo, "-m", "cpu", "--save", "red", "--triage", backend="eager")
    folder = tmp_path / ".triage" / "red"
    for name in ("tagged", "refusing"):
        (written,) = folder.glob(f"*-{name}-*/report.md")
        text = written.read_text()
        assert "**Stage:** Dynamo: `eager`" in text, session.output
        assert f"made from the recipe of {name}: exit status 1" in text
        assert "**The script is not verified**" not in text
        assert "**Submodule:**" not in text
    assert "2 culprits in 2 cases" in session.output


def test_what_a_probing_call_alone_shows_has_its_place_and_a_script(tmp_path):
    names = [word for name in PROBED for word in ("--models", name)]
    zoo = ("--zoo", str(ZOOS / "triaged.py"), "--tier", "standard", "--save", "red")
    words = command(FORWARD, *zoo, *names, "-m", "cpu", runs=tmp_path / "runs", backend="eager")
    session = run_to_its_end(words, None, tmp_path / "runs")
    assert session.counts["failed"] == len(PROBED), session.output
    out = ("--out", str(tmp_path / "out"), "--minutes", "4")
    output, _ = triage(session.runs, "red", *out, env={})
    for name, place in PROBED.items():
        (folder,) = (tmp_path / "out").glob(f"*-{name}-forward")
        report = (folder / "report.md").read_text()
        assert f"**Submodule:** {place}" in report, output
        assert "is not verified" not in report, output
        assert run_script(folder / "repro.py", env={})[0] == 1
        assert run_script(folder / "repro.py", "off", env={})[0] == 0
