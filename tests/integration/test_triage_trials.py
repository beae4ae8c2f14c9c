"""The trials of ``compilegate triage``: parts, stances, scripts and costs of single models."""

import contextlib
import re
import time
from dataclasses import replace

import pytest

from compilegate.culprits.grouping import Culprit
from compilegate.judging.budget import Budget
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.part import Held, Kernel
from compilegate.records.verdict import Verdict
from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.scripts import running
from compilegate.triage.scripts.script import of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.search import ladder
from compilegate.triage.search.place import Place, descend
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.suspect import Suspect
from compilegate.triage.search.trials import NOTHING_LEFT, Trials, part
from compilegate.triage.source.recipe import Recipe
from compilegate.triage.steps import workarounds
from tests.integration.conftest import ZOOS
from tests.unit.making import make_environment

pytestmark = pytest.mark.long


def trials_of(model, aspect, zoo, folder, *, backend="inductor", mode="default"):
    """Trials of a model, and of a suspect that no run has seen."""
    case = f"{model}-cpu-infer-f32-{mode}-static"
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
    shown = issue.text(trials.suspect, Findings(place=found), make_environment(), "observe", "")
    assert "passes when one of these is left to eager: `1.second`." in shown


def test_a_submodule_with_another_layout_is_not_where_numbers_are_wrong(tmp_path):
    found = Place()
    with contextlib.closing(trials_of("copies", "forward", "triaged", tmp_path)) as trials:
        descend(trials, found, "eager")
    states = {path: (seen.state, seen.text) for path, seen in found.tried.items()}
    assert (found.path, found.kind) == ("2", "Scaled"), states
    assert "aliasing differs" in states["1"][1]


LATE = """\
import torch
from torch import nn
from compilegate import Example, model

class Late(nn.Module):
    def forward(self, x):
        return x * 1.01 if x.shape[0] == 9 and torch.compiler.is_compiling() else x * 1.0

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.late = nn.Linear(8, 8), Late()

    def forward(self, x):
        return self.late(self.inp(x)).tanh()

@model("late", vary={"batch": (6, 9)}, settings=("infer-f32-default-static",))
def late():
    return Example(Net(), inputs=lambda batch: (torch.randn(batch, 8),), dims={0: {0: "batch"}})
"""


@pytest.mark.parametrize(("call", "path"), [(3, "late"), (1, "")])
def test_submodules_get_the_inputs_of_the_call_that_shows_it(call, path, tmp_path):
    (tmp_path / "late.py").write_text(LATE)
    (tmp_path / "made").mkdir()
    found, late = Findings(stage=ladder.Stage("eager", {"eager": Seen("bad")})), tmp_path / "late"
    with contextlib.closing(
        trials_of("late", "forward", late, tmp_path / "made", backend="eager")
    ) as trials:
        suspect = trials.suspect
        shown = replace(suspect.verdict, details=(f"call {call} (batch=9): output: wrong",))
        trials.suspect = replace(suspect, verdicts=[shown])
        trials.wants = ("capture", "vary")
        assert (trials.suspect.shown_in, trials.suspect.is_of_first_call) == (call - 1, call == 1)
        descend(trials, found.place, "eager")
        workarounds.find(trials, found, print)
    assert found.place.path == path
    assert found.place.needed == ([] if path else ["late"])
    helps = [code for code, _ in found.workarounds]
    assert any(code.startswith('part = model.get_submodule("late")\n') for code in helps)


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


def test_what_only_an_autotuning_mode_gets_wrong_is_of_autotuning(tmp_path):
    tuned = {"zoo": "planted_autotuning", "folder": tmp_path, "mode": "max_autotune"}
    with contextlib.closing(trials_of("tuned", "forward", **tuned)) as trials:
        stage = ladder.climb(trials)
        found = Findings(stage=stage)
        shown = issue.text(trials.suspect, found, make_environment(), "observe", "")
    assert (stage.name, stage.off) == ("autotuning", "inductor default"), stage.seen
    assert '**Stage:** autotuning: with `mode="default"`, that is without autotuning' in shown
    assert '| `inductor, mode="default"` | passes |' in shown


def test_a_part_that_is_wrong_in_its_third_call_is_found_by_three_calls(tmp_path):
    with contextlib.closing(trials_of("later", "forward", "triaged", tmp_path)) as trials:
        tried = [part(path="1", calls=2), part(path="1", calls=3)]
        seen = [*trials.of_parts(tried, "eager")]
    assert [each.state for each in seen] == ["good", "bad"], seen
    assert "call 3" in seen[1].text


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


@pytest.mark.parametrize(
    ("model", "kind", "path", "note"),
    [
        ("copies", "Scaled", "2", []),
        (
            "scaled",
            "Scaled",
            "0",
            [f"no workaround by torch.compiler.disable on 0: {NOTHING_LEFT}"],
        ),
    ],
)
def test_a_submodule_that_is_all_of_the_model_is_no_workaround(model, kind, path, note, tmp_path):
    found = Findings(place=Place(path=path, kind=kind, kinds={path: kind}))
    with contextlib.closing(
        trials_of(model, "forward", "triaged", tmp_path, backend="eager")
    ) as trials:
        found.stage = ladder.climb(trials)
        workarounds.find(trials, found, print)
    assert found.notes == note
    helps = "\n".join(code for code, _ in found.workarounds)
    assert ("get_submodule" in helps) == (not note)
    assert "force_eager" in helps


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
    path.write_text(of_recipe(Recipe(WAITS.splitlines()), case, shows, [{}, {}], backend=backend))
    return running.verify(path, "off", time.monotonic() + 300, says)


def test_the_script_of_a_hang_ends_by_itself(tmp_path):
    made = verified(tmp_path, Shows(title="it hangs", kind="hang", hangs_s=12.0), "eager")
    assert made.red.status == 1, made.red.output
    assert made.red.seconds < 120
    assert all(word in made.red.output for word in ("eager    ", "float64  ", "in wait"))
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
    shown = issue.text(suspect, Findings(kernels=kernels), make_environment(), "observe", "")
    assert "## Where the time goes" in shown
    assert f"| `{kernels[0].name}` | {kernels[0].eager_us:.1f} |" in shown
    product = 256 * 256 * 4
    held = [Held(**block) for block in blocks]
    assert any(block.eager and block.size == 5 * 8 * 4 for block in held), held
    large = [(block.eager, block.compiled) for block in held if block.size == product]
    assert large == ([(0, 1)] if model == "detours" else []), held
    shown = issue.text(suspect, Findings(held=held), make_environment(), "observe", "")
    assert f"| `{held[0].operator}` | {held[0].size} | " in shown
