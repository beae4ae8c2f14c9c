"""Distributed training: ranks that hang show their stacks, and what two ranks need is checked."""

import time
from dataclasses import replace
from unittest.mock import create_autospec

import pytest
import torch
from torch import nn

from compilegate import Example
from compilegate.judging.practices import judge_steps
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices import distributed, distributed_answers, torchrun
from compilegate.observe.practices.bench import Bench, StepFacts
from compilegate.observe.practices.distributed_answers import Answer, RankFailure
from compilegate.observe.practices.distributed_ways import RANKS, WAYS
from compilegate.observe.practices.rank_gradients import RankGradients
from compilegate.records.case import Case
from compilegate.records.request import Request
from compilegate.zoo import registry
from compilegate.zoo.registry import Model
from tests.integration.conftest import ZOOS
from tests.unit.making import make_observation
from tests.unit.subjects import net


def make_bench(build=net, gpus=()):
    case = Case.parse("net-cpu-train-f32-default-static")
    return bench_of(Model("net", "own", vary={"batch": (6,)}, build=build), case, gpus)


def bench_of(model, case, gpus=()):
    progress = Progress(lambda stage: None)
    builder = Builder(model, case, 0, progress)
    request = Request(case=case.id, wants=(), backend="aot_eager", gpus=gpus)
    return Bench(builder, request, progress, Reference(builder), draws=False)


@pytest.fixture(scope="module")
def models():
    return registry.load_with([str(ZOOS / "practised_distributed.py")])


@pytest.fixture
def judge_ranks(models, monkeypatch):
    """Train a model of the zoo in one way, and judge what it shows."""
    monkeypatch.setattr(distributed, "ways_of", lambda bench: WAYS[:2])

    def found(name):
        bench = bench_of(models[name], Case.parse(f"{name}-cpu-train-f32-default-static"))
        practice = distributed.observe(bench, idle_s=5)
        observation = make_observation(practices={"distributed": practice}, reference="float64")
        return judge_steps(observation, "distributed")

    return found


@pytest.mark.long
def test_a_rank_that_finds_no_memory_proves_nothing(judge_ranks):
    finding = judge_ranks("greedy_rank")
    assert finding.outcome == "inconclusive"
    assert "rank 1 raises RuntimeError: " in finding.summary
    assert "can't allocate memory" in finding.summary
    assert finding.summary.endswith("other processes held an unknown share of the memory")


@pytest.mark.long
def test_ranks_that_wait_for_each_other_show_the_stacks_of_both(judge_ranks):
    finding = judge_ranks("hanging_rank")
    way = WAYS[1].name
    assert finding.outcome == "failed"
    assert finding.summary == (
        f"{way}: step 1: raised RankError: torchrun did nothing for 5 s; "
        f"rank 0 and rank 1 came as far as {way}: step 1"
    )
    stacks = [line.strip() for line in finding.details]
    assert any(line.startswith("rank 0: ") and "in backward" in line for line in stacks)
    assert any(line.startswith("rank 1: ") and "in wait_for_rank_0" in line for line in stacks)


def test_the_first_error_of_a_rank_is_named_first(tmp_path):
    """The other rank then loses its connection, which says nothing."""
    for rank, error in ((1, "ValueError: no"), (0, "RuntimeError: connection closed")):
        distributed_answers.note_error(tmp_path, rank, RankFailure(error))
        time.sleep(0.01)
    assert [*distributed_answers.errors(tmp_path)] == [1, 0]


@pytest.mark.parametrize(
    ("exitcode", "words"),
    [("7", "rank 1 exited with status 7"), ("-11", "rank 1 was killed by SIGSEGV")],
)
def test_the_rank_that_ended_first_is_named(exitcode, words):
    """What torchrun 2.15 writes, shortened. It ended rank 0 itself."""
    output = f"""
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 5433)  (SIGTERM)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : {exitcode} (pid: 5434)
"""
    assert torchrun.first_death(output) == words
    assert torchrun.first_death("Current thread (most recent call first):") == ""


class Bare(nn.Module):
    def forward(self, x):
        return x + 1


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (
            lambda: Example(torch.relu, inputs=(torch.randn(3),)),
            "the model has no parameters to train",
        ),
        (lambda: Example(Bare(), inputs=(torch.randn(3),)), "the model has no parameters to train"),
    ],
)
def test_what_has_nothing_to_train_is_not_distributed(build, reason):
    assert distributed.observe(make_bench(build)).unavailable == reason


@pytest.mark.parametrize(
    ("visible", "of_session", "chosen"),
    [
        ("0,1", (), ["0", "1"]),
        ("2,5,7", (), ["2", "5"]),
        ("1", ("0", "1", "2"), ["1", "0"]),
        ("GPU-8932f937", ("GPU-8932f937", "GPU-11"), ["GPU-8932f937", "GPU-11"]),
        ("0", ("0",), []),
        ("0", (), []),
    ],
)
def test_ranks_get_the_gpu_of_the_process_first(monkeypatch, visible, of_session, chosen):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert torchrun.gpus(make_bench(gpus=of_session)) == chosen


def answer(**changed):
    tensors = {"weight": torch.ones(3), "bias": torch.zeros(2)} | changed
    return Answer((tensors,), dict(tensors), (1,), 1, ("a break",), (("linear",),))


@pytest.mark.parametrize("bias", [torch.ones(2), torch.zeros(2).double()])
def test_a_rank_leaves_only_what_the_first_one_has_not(tmp_path, bias):
    alike, other = answer(), answer(bias=bias)
    for rank, made in enumerate((alike, other)):
        assert not distributed_answers.is_complete(tmp_path, WAYS[0])
        made.leave(tmp_path, WAYS[0], rank, barrier=lambda: None)
    assert distributed_answers.is_complete(tmp_path, WAYS[0])
    assert not distributed_answers.is_complete(tmp_path, WAYS[1])
    first, second = distributed_answers.read(tmp_path, WAYS[0], "cpu")
    assert (second.compilations, second.graphs, second.breaks) == ((1,), 1, ("a break",))
    assert second.operators == (("linear",),)
    for made, found in ((alike, first), (other, second)):
        for name, tensor in made.weights.items():
            assert torch.equal(found.weights[name], tensor)
            assert torch.equal(found.steps[0][name], tensor)
            assert found.weights[name].dtype == tensor.dtype
    files = sorted(tmp_path.glob("*.pt"))
    _, groups, *_ = torch.load(files[1], weights_only=True)
    assert [[*group] for group in groups] == [["bias"], ["bias"]]


@pytest.mark.parametrize(
    ("operators", "lacking"),
    [
        ("mul sum", []),
        ("mul div sum", [("operator 2 of graph 2 of rank 1", "sum", "div")]),
        ("mul", [("operator 2 of graph 2 of rank 1", "sum", "none")]),
    ],
)
def test_the_first_operator_that_the_graph_of_a_rank_has_alone_is_noted(operators, lacking):
    facts = StepFacts()
    two = [
        replace(answer(), operators=(("x",), tuple(each.split())))
        for each in ("mul sum", operators)
    ]
    distributed._compare_graphs(facts, two)
    found = [(one.where, one.eager, one.compiled) for one in facts.state.differences]
    assert found == lacking


@pytest.mark.parametrize("bias", [torch.zeros(2), torch.ones(2), torch.zeros(2).double()])
def test_weights_of_a_rank_must_be_those_of_the_first_in_dtype_and_value(bias):
    facts = create_autospec(StepFacts, instance=True)
    distributed._compare_weights(facts, [answer(), answer(bias=bias)])
    found = {where: seen for where, _, seen in (call.args for call in facts.require.mock_calls)}
    is_alike = bias.dtype == torch.float32 and not bias.any()
    assert found["weight bias of rank 1"] == ("that of rank 0" if is_alike else "another")
    assert found["weight weight of rank 1"] == "that of rank 0"


def linear():
    return Example(nn.Linear(8, 4), inputs=lambda batch: (torch.randn(batch, 8),))


def gradients_of(bench, rank):
    subject, planned = bench.build(), PlannedCall(rank, bench.planned.sizes)
    return subject.call(subject.prepare(planned), planned.index).gradients


def test_gradients_of_ranks_are_compared_with_the_mean():
    bench = make_bench(linear)
    alone = [gradients_of(bench, rank) for rank in range(RANKS)]
    mean = {name: (alone[0][name] + alone[1][name]) / 2 for name in ("weight", "bias")}
    expected = RankGradients(bench)
    right = expected.compare([mean, mean], [mean, mean])
    assert len(right.errors) == 4
    assert all(error.compiled_rms < 1e-6 for error in right.errors)
    wrong = expected.compare([mean, mean], [mean, alone[1]])
    found = [error.name for error in wrong.errors if error.compiled_rms > 1e-3]
    assert found == ["gradient weight on rank 1"]
