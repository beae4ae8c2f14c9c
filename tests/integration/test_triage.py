"""``compilegate triage``: stage, place and script of each culprit, on a PyTorch that is broken.

A ``sitecustomize`` breaks it in every interpreter, so that a script with torch alone shows it, too.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from compilegate.judging.budget import Budget
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.part import Held, Kernel
from compilegate.records.verdict import Verdict
from compilegate.runs import files
from compilegate.triage import ladder, report, scripts_run
from compilegate.triage.culprits import Culprit
from compilegate.triage.findings import Findings
from compilegate.triage.place import Place, descend
from compilegate.triage.script import Shows, of_recipe
from compilegate.triage.suspect import Suspect
from compilegate.triage.trials import Trials, part
from tests.integration.conftest import (
    BREAKS,
    CHECKOUT,
    FORWARD,
    ZOOS,
    command,
    run_to_its_end,
    surroundings,
)
from tests.integration.processes import begun, living, soon
from tests.unit.making import make_environment

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
DECOMPOSED = "aot_eager_decomp_partition"


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
    return run_to_its_end(words, broken, runs)


def triage(runs, *words, env):
    """Run the command; return what it printed and its exit status."""
    ended = run_to_its_end(
        [sys.executable, "-m", "compilegate", "triage", "--runs", str(runs), *words], env, runs
    )
    return ended.output, ended.status


@pytest.fixture(scope="module")
def triaged(session, broken, tmp_path_factory):
    """The folders of the culprits by model, and the output."""
    out = tmp_path_factory.mktemp("out")
    output, status = triage(session.runs, "red", "--out", str(out), "--minutes", "4", env=broken)
    assert status == 1, output
    return {re.match(r"\d+-(\w+)-", path.name)[1]: path for path in out.glob("[0-9]*")}, output


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
    assert "**Submodule:** `1.gate`, a `Gate`" in report, output
    assert "**Operator:** `truediv`" in report or "**Operator:** `div`" in report, output
    assert "the fault is in what its own `forward` computes" in report
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
    assert "**Submodule:** `2`, a `ErrorFunction`" in report, output
    assert "died of SIGABRT; with `aot_eager` in place of the backend: exit status 0" in report
    assert 'torch.compiler.set_stance("force_eager")' in report
    assert "eager_on_recompile" not in report  # the first call dies


def test_one_cause_in_two_models_is_one_culprit_and_another_that_looks_alike_is_not(
    triaged, session
):
    folders, output = triaged
    assert folders.keys() == {"divides", "floors", "aborts"}, output
    assert re.search("recognised: (true)?div fails alone, as in another culprit", output), output
    assert "3 culprits in 4 cases by cause; by evidence 4 culprits in 4 cases" in output
    report = (folders["divides"] / "report.md").read_text()
    assert "In 2 cases: divides-cpu-infer-f32-default-static, divides_too-cpu-infer-f32" in report
    (other,) = (folders["divides"] / "same-cause").iterdir()
    assert f"see `same-cause/{other.name}`" in report
    assert re.search(r"\*\*Operator:\*\* `(true)?div`", (other / "report.md").read_text())
    assert "**Operator:** `div`" in (folders["floors"] / "report.md").read_text()
    joined = ("--known", str(folders["divides"].parent / "culprits.toml"))
    for known, count in (((), 4), (joined, 3)):
        words = [sys.executable, "-m", "compilegate", "markdown", "red", *known]
        words += ["--runs", str(session.runs)]
        page = run_to_its_end(words, {}, session.runs).output
        assert f"{count} culprits in 4 cases" in page


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
    assert "| `eager` | bad |" in text
    assert 'torch.compiler.set_stance("eager_on_recompile")' in text
    assert f"{written.parent}: Dynamo, the whole model, script verified" in session.output
    assert session.run("red").closing is not None


def test_what_was_found_before_ctrl_c_is_kept(stored, runs, tmp_path):
    stored("sound", "breaks")
    written = tmp_path / ".triage" / "stored" / "1-breaks-graph_breaks"
    words = command(BREAKS, "--replay", "stored", "--triage", runs=runs)
    with begun(words, runs) as process:
        assert soon(lambda: written.exists() or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=240)
        assert soon(lambda: not living(runs)), living(runs)
    assert process.returncode == 1, output
    assert "the triage ended early: interrupted" in output
    assert "Ctrl-C ended it in this step: " in (written / "report.md").read_text()
    assert files.read(runs / "stored.jsonl").closing is not None


def trials_of(model, aspect, zoo, folder, backend="inductor"):
    """Trials of a model, and of a suspect that no run has seen."""
    case = f"{model}-cpu-infer-f32-default-static"
    wants = ("capture", "time")
    observation = Observation(case=case, status="completed", wants=wants, backend=backend)
    verdict = Verdict(case=case, aspect=aspect, outcome="failed", summary="wrong")
    culprit = Culprit(("wrong",), "wrong", aspect, [case], [aspect])
    suspect = Suspect(culprit, observation, [verdict], lambda case: Budget(), "2.15.0")
    zoos = [str(ZOOS / f"{zoo}.py")]
    return Trials(suspect, folder, zoos, tf32=False, until=time.monotonic() + 1200)


@pytest.fixture
def gated(tmp_path):
    """Trials of a model whose gate Inductor lowers wrongly."""
    with contextlib.closing(trials_of("gated", "forward", "planted_lowering", tmp_path)) as made:
        yield made


def test_what_fails_only_in_one_graph_names_the_submodules_that_it_needs(tmp_path):
    found = Place()
    with contextlib.closing(trials_of("together", "forward", "triaged", tmp_path)) as trials:
        descend(trials, found, "eager")
    assert (found.path, found.kind, found.is_complete) == ("1", "Pair", True), found.tried
    states = {path: seen.state for path, seen in found.without.items()}
    assert states == {"1.first": "bad", "1.second": "good", "1.third": "bad"}
    shown = report.text(trials.suspect, Findings(place=found), make_environment(), "observe", "")
    assert "passes where one of these is left to eager: `1.second`." in shown


def test_a_wrong_lowering_is_of_inductor_and_of_the_module_that_it_is_in(gated):
    stage, found = ladder.climb(gated), Place()
    assert (stage.backend, stage.below) == ("inductor", "aot_eager_decomp_partition")
    assert {name: seen.state for name, seen in stage.seen.items()} == {
        "inductor": "bad",
        "eager": "good",
        "aot_eager": "good",
        "aot_eager_decomp_partition": "good",
    }
    descend(gated, found, "inductor")
    assert (found.path, found.kind, found.is_complete) == ("1", "Gate", True)
    assert {path: seen.state for path, seen in found.tried.items()} == {
        "0": "good",
        "1": "bad",
        "1.inner": "good",
    }
    assert {path: seen.state for path, seen in found.without.items()} == {"1.inner": "bad"}
    assert gated.of_part(part(stance="eager_on_recompile")).state == "bad"
    assert gated.of_part(part(stance="force_eager")).state == "good"


@pytest.fixture
def counts(tmp_path):
    """Trials of a model that is compiled again for each call."""
    made = trials_of("counts", "recompiles", "triaged", tmp_path, backend="eager")
    with contextlib.closing(made) as trials:
        yield trials


def test_a_stance_helps_where_compiled_code_exists_and_is_right(counts):
    assert counts.of_backend("eager").state == "bad"
    assert counts.of_part(part()).state == "bad"
    assert counts.of_part(part(stance="eager_on_recompile")).state == "good"
    unknown = counts.of_part(part(stance="lenient"))
    assert unknown.state == "unobservable"
    assert "lenient" in unknown.text


WAITS = """\
def recipe():
    import time
    def wait(x):
        if torch.compiler.is_compiling():
            time.sleep(10_000)
        return x + 1
    return dict(module=wait, inputs=lambda: (torch.randn(3),))
"""


def verified(tmp_path, shows, backend, says=""):
    """Run a script of a function that waits where it is compiled, and without the compiler."""
    case, path = Case.parse("m-cpu-infer-f32-default-static"), tmp_path / "repro.py"
    path.write_text(of_recipe(WAITS.splitlines(), case, shows, [{}, {}], backend=backend))
    return scripts_run.verify(path, "off", time.monotonic() + 300, says)


def test_the_script_of_a_hang_ends_by_itself(tmp_path):
    made = verified(tmp_path, Shows(title="it hangs", kind="hang", hangs_s=12.0), "eager")
    assert made.red.status == 1, made.red.output
    assert made.red.seconds < 120
    assert all(word in made.red.output for word in ("eager    {", "float64  {", "in wait"))
    assert made.green.status == 0, made.green.output
    assert made.holds


def test_a_script_that_cannot_compile_shows_nothing(tmp_path):
    """Python exits with status 1, too, where there is no C++ compiler, or the disk is full."""
    shows = Shows(title="it raises", kind="raises")
    made = verified(tmp_path, shows, "no_such_backend", "Unsupported")
    assert made.red.status == 1
    assert "InvalidBackend" in made.red.output
    assert not made.holds


@pytest.mark.parametrize("model", ["detours", "direct"])
def test_kernels_and_memory_of_compiled_code_are_shown_next_to_those_of_eager(model, tmp_path):
    with contextlib.closing(trials_of(model, "speedup", "triaged", tmp_path)) as trials:
        suspect = trials.suspect
        assert suspect.cost == "time"
        told, why = trials.told(part(), "kernels")
        blocks, also_why = trials.told(part(), "held")
    assert not why
    assert not also_why
    kernels = [Kernel(**kernel) for kernel in told]
    assert all(kernel.eager_us > 0 or kernel.compiled_us > 0 for kernel in kernels)
    assert any(kernel.name == "aten::tanh" and kernel.eager_us > 0 for kernel in kernels)
    products = [k for k in kernels if re.search(r"\bmm\b", k.name) and not k.eager_us]
    assert bool(products) == (model == "detours"), kernels
    shown = report.text(suspect, Findings(kernels=kernels), make_environment(), "observe", "")
    assert "## Where the time goes" in shown
    assert f"| `{kernels[0].name}` | {kernels[0].eager_us:.1f} |" in shown
    product = 256 * 256 * 4
    held = [Held(**block) for block in blocks]
    assert any(block.eager and block.size == 5 * 8 * 4 for block in held), held
    large = [(block.eager, block.compiled) for block in held if block.size == product]
    assert large == ([(0, 1)] if model == "detours" else []), held
    shown = report.text(suspect, Findings(held=held), make_environment(), "observe", "")
    assert f"| `{held[0].operator}` | {held[0].size} | " in shown
