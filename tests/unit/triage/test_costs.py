"""Too much memory: its script measures it, its title has the figures, and other costs have none."""

import time
from dataclasses import replace

import pytest

from compilegate.culprits.grouping import culprits
from compilegate.judging.budget import Budget
from compilegate.records.case import Case
from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.report.title import title_of
from compilegate.triage.scripts import running
from compilegate.triage.scripts.script import of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.search import costs, ladder
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.suspect import Suspect
from compilegate.triage.source.recipe import Recipe
from tests.unit.failing import A, failures
from tests.unit.making import make_environment, make_memory, make_observation

pytestmark = pytest.mark.long

MIB = 2**20
RECIPE = """\
def wide(x):
    more = [x * n for n in range({blocks} if torch.compiler.is_compiling() else 1)]
    return sum(more)
def recipe():
    return dict(module=wide, inputs=lambda batch: (torch.randn(batch, 1024),))
"""


def needing(compiled, eager=2 * MIB, case=A):
    wants = ("capture", "memory")
    return make_observation(case=case, memory=make_memory(eager, compiled), wants=wants)


def suspect_of(observation, **budget):
    limits = {"max_memory_ratio": 1.2, **budget}
    found = [each for each in failures(observation, **limits) if each.verdict.aspect == "memory"]
    (culprit,) = culprits(found)
    verdicts = [each.verdict for each in found]
    return Suspect(culprit, observation, verdicts, lambda case: Budget(**limits), "2.15.0")


@pytest.mark.parametrize("phase", ["infer", "train"])
@pytest.mark.parametrize(("blocks", "holds"), [(8, True), (1, False)])
def test_a_script_measures_memory(blocks, holds, phase, tmp_path):
    case = Case.parse(f"m-cpu-{phase}-f32-default-static")
    recipe = Recipe(RECIPE.format(blocks=blocks).splitlines())
    shows = Shows(title="memory", most=1.2, more=MIB, calls=1)
    script = tmp_path / "repro.py"
    script.write_text(of_recipe(recipe, case, shows, [{"batch": 1024}], backend="eager"))
    made = running.verify(script, "off", time.monotonic() + 200)
    assert made.holds == holds, made.red.output
    assert made.red.status == int(holds), made.red.output
    assert "at most 1.2 allowed" in made.red.output


def test_a_title_has_the_figures():
    suspect = suspect_of(needing(8 * MIB))
    title = title_of(suspect, Findings(stage=Stage("inductor")))
    said = "4.00 times eager's memory (8.0 MiB, at most 1.2 times allowed)"
    assert title == f"[Inductor] one: {said}"


def test_memory_of_another_order_has_another_cause():
    suspect = suspect_of(needing(8 * MIB))
    assert costs.is_far(suspect, needing(257 * MIB))
    assert not costs.is_far(suspect, needing(12 * MIB))
    assert costs.is_far(suspect, needing(MIB))


@pytest.mark.parametrize(("most", "is_below"), [(0.5, True), (1.2, False)])
def test_a_budget_below_eager_blames_no_stage(most, is_below):
    suspect = suspect_of(needing(4 * MIB), max_memory_ratio=most)
    assert costs.is_below_eager(suspect) == is_below
    assert bool(costs.why_no_script(suspect)) == is_below

    class Trials:
        cold = False

        def of_backend(self, backend):
            return Seen("bad", "memory: peak")

    trials = Trials()
    trials.suspect = suspect
    stage = ladder.climb(trials)
    assert stage.backend == ("" if is_below else "eager")
    text = issue.text(suspect, Findings(stage=stage), make_environment(), "observe", "")
    assert ("No part of the compiler need be at fault" in text) == is_below


def test_only_the_peak_of_a_call_has_a_script():
    suspect = suspect_of(needing(8 * MIB))
    assert costs.why_no_script(suspect) == ""
    slow = replace(suspect, verdicts=[replace(suspect.verdict, aspect="speedup")])
    assert "the table above" in costs.why_no_script(slow)
    numbers = replace(suspect, verdicts=[replace(suspect.verdict, aspect="forward")])
    assert costs.why_no_script(numbers) == ""


@pytest.mark.parametrize(
    ("summary", "title"),
    [
        (
            "at batch=768, peak 6.0 MiB, eager 1.5 MiB; "
            "peak 8.0 MiB, eager 2.0 MiB (4.00×), at most 1.2× allowed",
            "4.00 times eager's memory (8.0 MiB, at most 1.2 times allowed)",
        ),
        (
            "at batch=768, peak 6.0 MiB, eager 1.5 MiB; "
            "peak 2.0 MiB, eager 2.0 MiB (1.00×), at most 1.2× allowed",
            "too much memory at batch=768 (6.0 MiB, eager 1.5 MiB)",
        ),
        (
            "each call leaves 3 KiB more allocated than eager; peak 2.0 MiB, eager 2.0 MiB (1.00×)",
            "each call leaves 3 KiB more allocated than eager",
        ),
    ],
)
def test_a_title_says_what_is_too_much(summary, title):
    suspect = suspect_of(needing(8 * MIB))
    verdict = replace(suspect.verdict, summary=summary, details=())
    made = title_of(replace(suspect, verdicts=[verdict]), Findings())
    assert made == f"one: {title}"


def test_a_bisection_names_the_stage_of_memory_that_grows_twice():
    found = Findings(bisected={"subsystem": "decomposition", "what": "aten.mm.default"})
    made = title_of(suspect_of(needing(8 * MIB)), found)
    assert made.startswith("[decompositions] mm: 4.00 times eager's memory")
