"""Serving: threads of one process call compiled modules at once, as those of a server do.

The grad mode, autocast and inference mode belong to a thread. Each thread enters them itself.
https://docs.pytorch.org/docs/stable/notes/autograd.html#inference-mode
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch._inductor import cudagraph_trees

from compilegate.observe.capture import compile_log
from compilegate.observe.device import device as device_of
from compilegate.observe.practices import serving_speed
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.calling_threads import CallingThreads, calling
from compilegate.observe.practices.served import Mode, Served, other_weights
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.practice import Practice

#: How many threads call at once.
THREADS = 4
#: A call with CUDA graphs warms up, then records, then replays.
_CALLS_TO_REPLAY = 3

_NO_GRAD: Mode = contextlib.nullcontext  # the grad mode of the case


@dataclass(frozen=True)
class _Needs:
    """The compilations that steps need, as the first call has shown.

    Attributes:
        first: Those of a first call, or of one in another mode.
        has_choice: Whether a code object was compiled more than once, so that guards choose.
    """

    first: int
    has_choice: bool

    @property
    def at_once(self) -> int:
        """The most where threads compile at once, or where guards have a choice.

        A thread that looks for its code while another one finds its own may miss it, by chance. So
        no exact number can be asked for.
        """
        return THREADS * self.first

    @property
    def warm(self) -> int:
        """The most where all threads call what is compiled."""
        return self.at_once if self.has_choice else 0


def observe(bench: Bench) -> Practice:
    """Call compiled modules from threads, in both modes that serve, and measure how fast it is."""
    bench.forget_compiled()
    try:
        served = Served(bench, THREADS)
    except StepUnavailableError as reason:
        return Practice(unavailable=str(reason))
    bench.figures["threads"] = THREADS
    with calling(THREADS, bench.progress.beat) as threads:
        needs = _call_one_module(bench, threads, served)
        for part in (_switch_modes, _call_two_modules, _measure, _compile_at_once):
            if not threads.are_stuck:
                part(bench, threads, served, needs)
    if not threads.are_stuck:
        _start_in_inference_mode(bench, served, needs)
        _replay_cuda_graphs(bench, served, needs)
    return bench.practice()


def _call_one_module(bench: Bench, threads: CallingThreads, served: Served) -> _Needs:
    """Compile in the main thread, then call from all threads.

    Returns:
        The compilations that the next steps need.
    """
    with bench.step("a first call, in the main thread") as facts:
        served.compile()
        served.compare(facts, 0, served.answer(0))
        served.answer(0)  # a model may fill a cache in its first call, and read it in the next
        facts.require_graph(is_captured=compile_log.graphs() > 0)
    first = compile_log.compilations()
    needs = _Needs(first, has_choice=first > compile_log.code_objects())
    with bench.step(
        f"{THREADS} threads call a compiled module at once", needed=needs.warm
    ) as facts:
        served.compare_threads(facts, threads, lambda number: _NO_GRAD)
        served.compare_state(facts)
    return needs


def _switch_modes(bench: Bench, threads: CallingThreads, served: Served, needs: _Needs) -> None:
    """Call code that was compiled under ``no_grad`` under ``inference_mode``, and back.

    A tensor that is made under ``inference_mode`` has other dispatch keys, which are guarded.
    """
    with bench.step("inference_mode after no_grad", needed=needs.first) as facts:
        served.compare(facts, 0, served.answer(0, torch.inference_mode))
        served.note_inference(facts, torch.inference_mode)
    with bench.step("inputs that are made under inference_mode", needed=needs.first) as facts:
        with torch.inference_mode():
            call = served.compiled.prepare(bench.planned)
        served.compare(facts, 0, served.answer(0, torch.inference_mode, call))
    with bench.step("no_grad again", needed=0) as facts:
        served.compare(facts, 1, served.answer(1))
        served.note_inference(facts, _NO_GRAD)
    with bench.step("threads in both modes at once", needed=needs.at_once) as facts:
        modes: tuple[Mode, ...] = (_NO_GRAD, torch.inference_mode)
        served.compare_threads(facts, threads, lambda number: modes[number % len(modes)])


def _call_two_modules(bench: Bench, threads: CallingThreads, served: Served, needs: _Needs) -> None:
    """Call two modules of one class, with other weights, in turns from all threads."""
    before = compile_log.compilations()
    with bench.step("compile another module of the same class", needed=needs.first) as facts:
        other = Served(bench, THREADS, weights=other_weights(bench))
        other.compile()
        other.compare(facts, 0, other.answer(0))
    if bench.steps[-1].raised or bench.steps[-1].unavailable:
        return
    shares_code = compile_log.compilations() == before
    needed = needs.warm if shares_code else needs.at_once
    with bench.step("threads call two compiled modules in turns", needed=needed) as facts:
        both = (served, other)
        answers = threads.run(
            lambda number: [
                # Half of the threads begin with the other module.
                [(which, both[which].answer(number)) for which in (number % 2, 1 - number % 2)]
                for _ in range(2)
            ]
        )
        for number, rounds in enumerate(answers):
            for which, made in rounds[-1]:
                both[which].compare(facts, number, made)


def _measure(bench: Bench, threads: CallingThreads, served: Served, needs: _Needs) -> None:
    """Measure how fast the threads are served, unless a step raised."""
    if not any(step.raised for step in bench.steps):
        with bench.progress.spend("run"):
            bench.figures |= serving_speed.measure(bench, threads, served)


def _compile_at_once(bench: Bench, threads: CallingThreads, served: Served, needs: _Needs) -> None:
    """Let all threads make the first call at once. Each of them may compile what it needs.

    Dynamo lets one thread compile after the other, and none of them looks for what another one has
    compiled while it waited.
    """
    bench.forget_compiled()
    served.compile()
    name = f"{THREADS} threads make the first call at once"
    with bench.step(name, needed=needs.at_once) as facts:
        for number, made in enumerate(threads.run(served.answer)):
            served.compare_of_thread(facts, number, made)
    bench.figures["compilations_at_once"] = compile_log.compilations()
    if threads.are_stuck:
        return
    with bench.step("threads call what threads compiled", needed=needs.warm) as facts:
        served.compare_threads(facts, threads, lambda number: _NO_GRAD)


def _start_in_inference_mode(bench: Bench, served: Served, needs: _Needs) -> None:
    """Compile under ``inference_mode``, and call the result under ``no_grad``."""
    bench.forget_compiled()
    served.compile()
    with bench.step("a first call under inference_mode", needed=needs.first) as facts:
        served.compare(facts, 0, served.answer(0, torch.inference_mode))
        served.note_inference(facts, torch.inference_mode)
    with bench.step("no_grad after inference_mode", needed=needs.first) as facts:
        served.compare(facts, 1, served.answer(1))
        served.note_inference(facts, _NO_GRAD)


def _replay_cuda_graphs(bench: Bench, served: Served, needs: _Needs) -> None:
    """Call a module that records CUDA graphs from threads: one after the other, then at once.

    A replay overwrites the outputs of earlier ones, so each thread copies its own before the next
    one calls.
    """
    if not device_of(served.compiled.case.device).records_graphs:
        return
    bench.forget_compiled()
    turn = threading.Lock()

    @contextlib.contextmanager
    def next_generation(lock: AbstractContextManager[object]) -> Iterator[None]:
        with lock:
            torch.compiler.cudagraph_mark_step_begin()
            yield

    with calling(THREADS, bench.progress.beat) as threads:  # graphs end with their thread
        mode = "mode='reduce-overhead'"
        name = f"{THREADS} threads take turns to call a module with {mode}"
        with bench.step(name, needed=needs.first) as facts:
            if bench.request.backend != "inductor":
                raise StepUnavailableError(f"the backend {bench.request.backend} has no modes")
            served.compile(mode="reduce-overhead")
            for _ in range(_CALLS_TO_REPLAY):
                served.answer(0, lambda: next_generation(turn))
            served.compare_threads(facts, threads, lambda number: lambda: next_generation(turn))
        name = f"{THREADS} threads call a module with {mode} at once"
        with bench.step(name, needed=needs.warm) as facts:
            if bench.steps[-1].raised or bench.steps[-1].unavailable:
                raise StepUnavailableError("they could not take turns")
            if not hasattr(cudagraph_trees, "graph_capture_lock"):
                raise StepUnavailableError(
                    f"CUDA graphs of torch {torch.__version__} give wrong answers in threads that "
                    "take no turns: https://github.com/pytorch/pytorch/issues/123177"
                )
            apart = contextlib.nullcontext()
            served.compare_threads(facts, threads, lambda number: lambda: next_generation(apart))
    served.compiled.let_go()
