"""A rank of the practice ``distributed``: a worker, of which torchrun starts several."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from compilegate.observe import error_text, failures, vector_instructions
from compilegate.observe.capture import compile_log
from compilegate.observe.capture.compile_log import CompileLog
from compilegate.observe.device import device as device_of
from compilegate.observe.device import out_of_memory
from compilegate.observe.model.calls import PlannedCall, input_tensors
from compilegate.observe.model.seeding import seed_everything
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.distributed_answers import (
    Answer,
    RankFailure,
    Tensors,
    note_error,
    note_stage,
)
from compilegate.observe.practices.distributed_ways import STEPS, Way, ways_of
from compilegate.observe.practices.fresh_process import job_in
from compilegate.observe.practices.same_case import rebuilt
from compilegate.records.host_memory import MemoryAccount
from compilegate.zoo.example import Call

#: A step of the optimizer changes each weight by this multiple of its gradient.
_RATE = 0.1


def main(folder: Path) -> None:
    """Train in the ways that the job names, and leave an answer for each."""
    rank = int(os.environ["RANK"])
    memory = MemoryAccount()
    kills, device = memory.kills(), "cpu"

    def enter(stage: str) -> None:
        print(stage, flush=True)
        note_stage(folder, rank, stage)

    try:
        enter("init_process_group")
        job = job_in(folder)
        bench = rebuilt(job)
        vector_instructions.probe_without_torch()
        device = bench.builder.case.device
        if device != "cpu":
            torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group(dist.get_default_backend_for_device(device))
        for way in ways_of(bench):
            if way.name in job["ways"]:
                answer = _train(bench, way, rank, enter)
                enter(f"{way.name}: leave the answer")
                answer.leave(folder, way, rank, dist.barrier)
        enter("destroy_process_group")
        dist.destroy_process_group()
    except Exception as error:
        failure = _failure(error, device, memory, killed=memory.kills() != kills)
        note_error(folder, rank, failure)
        raise


def _failure(error: Exception, device: str, memory: MemoryAccount, *, killed: bool) -> RankFailure:
    """Return the record of an error.

    Ranks share the machine's memory with each other and with the process that started them. How
    much of it these held when it ran out is not known.
    """
    cause = out_of_memory.find(error, killed=killed)
    if cause is None:
        return RankFailure(error_text.with_kind(error))
    found = failures.of_out_of_memory(cause, "distributed", device_of(device), memory)
    held = None if out_of_memory.is_of_host(cause) else found.held_by_others
    return RankFailure(f"{found.kind}: {found.message}", held)


def _train(bench: Bench, way: Way, rank: int, enter: Callable[[str], None]) -> Answer:
    """Take some steps with the same inputs and weights, then one of an optimizer."""
    bench.forget_compiled()
    enter(f"{way.name}: build")
    subject = way.apply(bench)
    # The number of a call determines its inputs, so each rank has other ones.
    planned = PlannedCall(rank, bench.planned.sizes)
    call = subject.prepare(planned)
    steps, compilations = [], []
    for step in range(1, STEPS + 1):
        before = compile_log.compilations()
        subject.forget_gradients(call)
        seed_everything(bench.request.seed + 1 + planned.index)
        enter(f"{way.name}: step {step}")
        subject.step(call)
        enter(f"{way.name}: gather the gradients of step {step}")
        steps.append(_gradients(subject, call))
        compilations.append(compile_log.compilations() - before)
    captured = _captured()
    enter(f"{way.name}: optimizer.step()")
    trained = [parameter for parameter in subject.parameters().values() if parameter.requires_grad]
    torch.optim.SGD(trained, lr=_RATE).step()
    weights = {name: _whole(value) for name, value in subject.parameters().items()}
    return Answer(tuple(steps), weights, tuple(compilations), *captured)


def _gradients(subject: Subject, call: Call) -> Tensors:
    leaves: dict[str, torch.Tensor] = {**input_tensors(call), **subject.parameters()}
    found = {name: leaf.grad for name, leaf in leaves.items() if leaf.is_leaf}
    return {name: _whole(value) for name, value in found.items() if value is not None}


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor, gathered from all ranks if each of them has a part."""
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach().clone()


def _captured() -> tuple[int, tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the number of graphs, the reasons and places of graph breaks, and the operators."""
    log = CompileLog()
    log.after_call(0)
    found = log.capture()
    breaks = (f"{one.reason} at {one.place}" if one.place else one.reason for one in found.breaks)
    return found.graphs, tuple(sorted(breaks)), compile_log.operators()
