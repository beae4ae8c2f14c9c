"""Training loops: a loop that leaves out part of a step is found, and one that rounds is not."""

import contextlib
from unittest import mock

import pytest
import torch
from torch import nn
from torch._dynamo import guards

from compilegate import Example
from compilegate.judging.budget import Budget
from compilegate.judging.practices import judge_steps
from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices import eager_loops, loop_steps, losses, training_loop
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.loops import Nudges, Recipe, Snapshot
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.case import Case
from compilegate.records.practice import Practice, Step
from compilegate.records.request import Request
from compilegate.suites import test_activation_checkpointing, test_compiled_optimizer
from compilegate.zoo.registry import Model
from tests.unit.making import make_checked, make_error, make_observation

CASE = Case.parse("net-cpu-train-f32-default-static")
PLAIN, ADAMW, SGD = training_loop.RECIPES
ROUNDING = 2.0**-23


def net():
    """A network with a tie of every kind: batch norm, ReLU, and a bias without a gradient."""
    layers = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4)
    return Example(nn.Sequential(*layers), inputs=lambda batch: (torch.randn(batch, 8),))


def make_bench(build=net, backend="inductor"):
    model = Model("net", "own", vary={"batch": (12,)}, build=build)
    progress = Progress(lambda stage: None)
    builder = Builder(model, CASE, 0, progress)
    request = Request(case=str(CASE), wants=("capture", "training_loop"), backend=backend)
    return Bench(builder, request, progress, Reference(builder), draws=True)


def trained(recipe, fault=None, nudges=None):
    """Return the verdict on an eager loop that stands for a compiled one, with a fault."""
    bench = make_bench()
    strengths = eager_loops.strengths_of(bench)

    def make():
        loop = eager_loops.make_loop(bench, bench.build(), recipe, strengths, nudges=nudges)
        if fault is not None:
            fault(loop)
        return loop

    loop_steps.train(bench, recipe, strengths, make)
    practice = Practice(steps=tuple(bench.steps), graphs=1)
    observation = make_observation(
        case=str(CASE), practices={"training_loop": practice}, reference="float64"
    )
    return judge_steps(observation, "training_loop")


@pytest.mark.parametrize("recipe", [PLAIN, ADAMW, SGD], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_a_loop_that_rounds_otherwise_passes(recipe, seed):
    finding = trained(recipe, nudges=Nudges(ROUNDING, "cpu", 1000 + seed))
    assert finding.outcome == "passed", finding


def without(key):
    """Set a key of the optimizer to zero: momentum, or weight decay."""

    def fault(loop):
        loop.optimizer.param_groups[0][key] = 0.0

    return fault


def keeps_its_first_rate(loop):
    (group,) = loop.optimizer.param_groups
    first, step = group["lr"], loop.optimizer.step

    def stale(*args, **kwargs):
        group["lr"], now = first, group["lr"]
        try:
            return step(*args, **kwargs)
        finally:
            group["lr"] = now

    loop.optimizer.step = stale


def compiles_each_rate_in(loop):
    """Change the rate only every fifth step, as code that is compiled for a float would."""
    (group,) = loop.optimizer.param_groups
    step, seen = loop.optimizer.step, []

    def late(*args, **kwargs):
        seen.append(group["lr"])
        group["lr"], now = seen[len(seen) // 5 * 5 - 1 if len(seen) >= 5 else 0], group["lr"]
        try:
            return step(*args, **kwargs)
        finally:
            group["lr"] = now

    loop.optimizer.step = late


def does_not_clip(loop):
    step = loop.step

    def unclipped(**others):
        with mock.patch.object(nn.utils, "clip_grad_norm_"):
            step(**others)

    loop.step = unclipped


def loses_the_first_micro_batch(loop):
    @contextlib.contextmanager
    def overwriting(index):
        for group in loop.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        yield

    loop.around_backward = overwriting


def hides_infinities(loop):
    @contextlib.contextmanager
    def finite(index):
        yield
        for group in loop.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad.nan_to_num_(0.0, 1.0, -1.0)

    loop.around_backward = finite


def steps_in_spite_of_infinities(loop):
    step = loop.step

    def unskipped(**others):
        with mock.patch.object(torch.amp.GradScaler, "step", lambda self, other: other.step()):
            step(**others)

    loop.step = unskipped


#: What a loop can leave out, by the recipe that shows it.
FAULTS = [
    (SGD, without("momentum")),
    (SGD, without("weight_decay")),
    (ADAMW, without("weight_decay")),
    (SGD, keeps_its_first_rate),
    (ADAMW, keeps_its_first_rate),
    (SGD, compiles_each_rate_in),
    (SGD, does_not_clip),
    (SGD, loses_the_first_micro_batch),
    (ADAMW, loses_the_first_micro_batch),
    (ADAMW, hides_infinities),
    (ADAMW, steps_in_spite_of_infinities),
]


@pytest.mark.parametrize(("recipe", "fault"), FAULTS)
def test_a_loop_that_leaves_out_part_of_a_step_fails(recipe, fault):
    finding = trained(recipe, fault)
    assert finding.outcome == "failed"
    assert finding.summary.startswith(f"{recipe}: 3 steps: "), finding.summary


def test_a_skipped_step_that_differs_is_named():
    summary = trained(ADAMW, hides_infinities).summary
    assert summary.endswith("skipped by GradScaler: value differs: eager 2, compiled none")


def test_a_model_without_parameters_cannot_be_trained():
    bench = make_bench(lambda: Example(torch.relu, inputs=(torch.randn(3),)))
    assert training_loop.observe(bench).unavailable == "the model has no parameters to train"


def test_an_output_without_a_gradient_has_no_loss():
    with pytest.raises(StepUnavailableError, match="no output can be differentiated"):
        losses.loss_of({"logits": torch.randn(2, 3)}, 0)


def test_a_model_s_own_loss_is_taken():
    own = torch.tensor(2.0, requires_grad=True)
    assert losses.loss_of({"loss": own, "logits": torch.randn(2, 3)}, 0) == 2.0


def test_logits_have_a_cross_entropy_and_other_outputs_a_square_loss():
    logits = torch.full((5, 8), 3.0, requires_grad=True)
    assert losses.loss_of(logits, 0).item() == pytest.approx(torch.tensor(8.0).log().item())
    images = torch.zeros(20, 3, 50, requires_grad=True)
    assert losses.loss_of(images, 0).item() == pytest.approx(1.0, abs=0.1)


def test_targets_are_the_same_in_each_precision():
    output = torch.randn(4, 3, 2, requires_grad=True)
    ours, theirs = (losses.loss_of(one, 7) for one in (output, output.double()))
    assert theirs.dtype == torch.float64
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)


def practised(name, **figures):
    step = Step(name="one step", outputs=make_checked(make_error("losses")))
    practice = Practice(steps=(step,), graphs=1, figures=figures)
    return make_observation(practices={name: practice}, wants=("capture", name))


@pytest.mark.parametrize(
    ("budgeted", "outcome"),
    [(None, "passed"), (0.5, "passed"), (1.0, "inconclusive"), (2, "failed")],
)
def test_the_speed_of_a_compiled_optimizer_is_judged_where_a_budget_asks(budgeted, outcome):
    observation = practised(
        "compiled_optimizer",
        optimizer_eager_ms=1.0,
        optimizer_compiled_ms=1.0,
        optimizer_speedup_low_x=0.9,
        optimizer_speedup_high_x=1.1,
    )
    finding = test_compiled_optimizer.rule(observation, Budget(min_optimizer_speedup=budgeted))
    assert finding.outcome == outcome
    assert (
        "a step of AdamW takes 1 ms, compiled 1 ms: 0.90 to 1.10 times as fast" in finding.summary
    )


@pytest.mark.parametrize(
    ("peak", "slack", "outcome"),
    [
        (70.0, 0, "passed"),
        (130.0, 0, "failed"),
        (130.0, 30, "passed"),
        (131.0, 30, "failed"),
        (99.0, 6, "passed"),
        (100.0, 6, "failed"),  # the checkpoints save nothing
    ],
)
def test_checkpoints_must_save_memory(peak, slack, outcome):
    observation = practised(
        "activation_checkpointing", plain_peak_bytes=100.0, checkpointed_peak_bytes=peak
    )
    budget = Budget(memory_slack_bytes=slack)
    assert test_activation_checkpointing.rule(observation, budget).outcome == outcome


def test_a_compiled_call_that_raised_has_no_peak():
    finding = test_activation_checkpointing.rule(practised("activation_checkpointing"), Budget())
    assert (finding.outcome, finding.summary) == ("passed", "1 step, 1 value compared")


def test_a_recipe_is_named_by_what_it_adds():
    assert str(Recipe("AdamW", plain=True)) == "plain AdamW"
    assert str(SGD) == "SGD with momentum, clipping, schedule, accumulation"


def test_a_plain_loop_pools_weights_and_floating_buffers_but_no_counts():
    one, two = torch.ones(2, 2), torch.full((3,), 2.0)
    reached = Snapshot(
        losses=torch.zeros(1),
        updates={"weight": one, "bias": two},
        buffers={"mean": one, "variance": two, "count": torch.tensor(20)},
        skipped=(),
    )
    pooled = [eager_loops._pooled_values(reached, group) for group in ("updates", "buffers")]
    assert [{name: value.numel() for name, value in group.items()} for group in pooled] == [
        {"updates": 7},
        {"buffers": 7, "count": 1},
    ]
    assert eager_loops._pooled_values(reached, "losses")["losses"] is reached.losses


def without_global_state():
    """Drop the guards on grad mode, autocast and other global state."""

    def unguarded(self, guard):
        manager = self.check_fn_manager
        manager.global_state = manager.output_graph.global_state_guard

    return mock.patch.object(guards.GuardBuilder, "GLOBAL_STATE", unguarded)


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [(contextlib.nullcontext, "passed"), (without_global_state, "failed")],
    ids=["healthy", "unguarded"],
)
def test_training_runs_no_code_that_was_compiled_without_gradients(fault, outcome):
    bench = make_bench(backend="aot_eager")
    with fault(), mock.patch.object(training_loop, "RECIPES", (PLAIN,)):
        practice = training_loop.observe(bench)
    observation = make_observation(
        case=str(CASE), practices={"training_loop": practice}, reference="float64"
    )
    finding = judge_steps(observation, "training_loop")
    assert finding.outcome == outcome, finding
    assert practice.steps[0].name == "a call under no_grad before training"
    assert not practice.steps[0].raised


def test_a_model_that_needs_gradients_in_its_forward_is_trained():
    class Sloped(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x):
            total = self.linear.weight.sum()
            (slope,) = torch.autograd.grad(total * total, total)
            return self.linear(x) * slope

    bench = make_bench(lambda: Example(Sloped(), inputs=net().inputs))
    training_loop._validate(bench, bench.build())
    (step,) = bench.steps
    assert step.unavailable.startswith("eager raises RuntimeError: element 0 of tensors")


def test_each_loop_begins_with_the_first_attributes():
    class Alternating(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.turns = nn.Linear(8, 4), [True, False, False]

        def forward(self, x):
            self.turns.append(self.turns.pop(0))
            return self.linear(x).sin() if self.turns[0] else self.linear(x)

    bench = make_bench(lambda: Example(Alternating(), inputs=net().inputs), "aot_eager")
    with mock.patch.object(training_loop, "RECIPES", (PLAIN, SGD)):
        practice = training_loop.observe(bench)
    observation = make_observation(
        case=str(CASE), practices={"training_loop": practice}, reference="float64"
    )
    values = [line for line in judge_steps(observation, "training_loop").details if "error" in line]
    assert not values
