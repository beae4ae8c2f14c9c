"""Distributed training: two processes train a compiled model together, under torchrun.

On CPU they talk by gloo, and on GPUs by NCCL, one GPU each. DistributedDataParallel averages
gradients, and FSDP2 (``fully_shard``) shards weights, too.
https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html
https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import torch.distributed as dist

from compilegate.observe.practices.bench import Bench, StepFacts
from compilegate.observe.practices.distributed_answers import Answer, are_identical
from compilegate.observe.practices.distributed_ways import RANKS, STEPS, Way, modules, ways_of
from compilegate.observe.practices.rank_gradients import RankGradients
from compilegate.observe.practices.torchrun import Ranks, gpus
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.practice import Practice

#: Ranks that do nothing for this many seconds wait for each other. A cold disk is quicker.
IDLE_S = 120.0


def observe(bench: Bench, *, idle_s: float = IDLE_S) -> Practice:
    """Train in each way on all ranks, and compare what they found.

    Args:
        bench: The case.
        idle_s: Seconds after which the ranks hang, if none of them does anything.
    """
    if obstacle := _obstacle(bench):
        return Practice(unavailable=obstacle)
    try:
        expected = RankGradients(bench)
    except StepUnavailableError as reason:
        return Practice(unavailable=str(reason))
    with tempfile.TemporaryDirectory() as folder:
        ranks = Ranks(bench, Path(folder), idle_s)
        with bench.progress.spend("compile"):
            ranks.run(ways_of(bench))
        compiled = [(way, way.eager) for way in ways_of(bench) if way.eager is not None]
        graphs = sum(_compare(bench, *ways, ranks, expected) for ways in compiled)
        if ranks.end is not None:
            with bench.step("destroy_process_group"):
                raise ranks.end
    return replace(bench.practice(), graphs=graphs)


def _obstacle(bench: Bench) -> str:
    """Return why no rank can train; empty if nothing is known to prevent it."""
    device, subject = bench.builder.case.device, bench.build()
    if not dist.is_available():
        return "this PyTorch was built without torch.distributed"
    if not any(parameter.requires_grad for parameter in subject.parameters().values()):
        return "the model has no parameters to train"
    if subject.example.calls:
        return "the model lists its own calls, and each rank needs different ones"
    backend = dist.get_default_backend_for_device(device)
    if not dist.is_backend_available(backend):
        return f"this PyTorch was built without {backend}"
    if device != "cpu" and not gpus(bench):
        return f"{backend.upper()} needs {RANKS} GPUs"
    return ""


def _compare(bench: Bench, way: Way, eager_way: Way, ranks: Ranks, expected: RankGradients) -> int:
    """Compare the ranks with eager, and with each other. Return the graphs of a rank."""
    found: list[Answer] = []
    for step in range(STEPS):
        with bench.step(f"{way.name}: step {step + 1}") as facts:
            found, eager = ranks.answers(way), ranks.answers(eager_way)
            ours, theirs = ([answer.steps[step] for answer in side] for side in (eager, found))
            facts.gradients += expected.compare(ours, theirs)
            if step == 0:
                graphs = found[0].graphs
                facts.require_graph(is_captured=graphs > 0, of=() if graphs else modules(bench))
                _compare_graphs(facts, found)
            else:
                again = {f"rank {n}": answer.compilations[step] for n, answer in enumerate(found)}
                facts.require("compilations", str(dict.fromkeys(again, 0)), str(again))
        if bench.has_failed:
            return 0
    with bench.step(f"{way.name}: optimizer.step()") as facts:
        _compare_weights(facts, found)
    return found[0].graphs


def _compare_graphs(facts: StepFacts, found: list[Answer]) -> None:
    """Compare what the ranks compiled: a rank with other graphs waits at other places."""
    for rank, answer in enumerate(found[1:], start=1):
        facts.require(f"graphs of rank {rank}", str(found[0].graphs), str(answer.graphs))
        pairs = ((0, found[0], answer), (rank, answer, found[0]))
        for one, ours, theirs in pairs:
            alone = [each for each in ours.breaks if each not in theirs.breaks]
            where = f"graph breaks of rank {one} alone"
            facts.require(where, "none", "; ".join(alone) or "none")
        if (answer.graphs, answer.breaks) == (found[0].graphs, found[0].breaks):
            _compare_operators(facts, rank, found[0], answer)


def _compare_operators(facts: StepFacts, rank: int, first: Answer, ours: Answer) -> None:
    """Compare each graph of a rank with that of the first rank. Note the first other operator."""
    for graph, pair in enumerate(zip(first.operators, ours.operators, strict=False), start=1):
        both = enumerate(zip_longest(*pair, fillvalue="none"), start=1)
        unlike = ((number, *names) for number, names in both if names[0] != names[1])
        number, wanted, found = next(unlike, (1, "", ""))
        facts.require(f"operator {number} of graph {graph} of rank {rank}", wanted, found)


def _compare_weights(facts: StepFacts, found: list[Answer]) -> None:
    """Compare the weights after the same step on each rank: they must stay one model."""
    for rank, answer in enumerate(found[1:], start=1):
        for name, weight in found[0].weights.items():
            is_equal = are_identical(weight, answer.weights[name])
            where = f"weight {name} of rank {rank}"
            facts.require(where, "that of rank 0", "that of rank 0" if is_equal else "another")
