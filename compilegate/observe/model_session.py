"""Observes the cases of one model, one after the other, each from a clean compiler."""

from __future__ import annotations

import contextlib
import gc
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import TracebackType

import torch
from torch._inductor import utils as inductor_utils

from compilegate.observe import error_text
from compilegate.observe.capture import compile_log
from compilegate.observe.case_run import CaseRun
from compilegate.observe.conditioning.signal import Treated, treat
from compilegate.observe.device import out_of_memory
from compilegate.observe.measure.alternation import Line
from compilegate.observe.model.global_state import put_back
from compilegate.observe.model.reference import Reference
from compilegate.observe.threads import one_thread
from compilegate.records.case import Case
from compilegate.records.observation import Failure, Observation
from compilegate.records.request import Request, StageReport
from compilegate.zoo import registry
from compilegate.zoo.registry import Model

#: What PyTorch warns of because of how cases are observed, and no failure is to show: TF32 is off
#: on purpose, the first backward runs in a thread that has not used the GPU, and each profile is
#: its own cycle.
_EXPECTED_WARNINGS = (
    "TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled",
    "Attempting to run cuBLAS, but there was no current CUDA context",
    "Warning: Profiler clears events at the end of each cycle",
)


class Session:
    """What the cases of one model share: treated weights, and a reference per phase.

    Args:
        models: The zoo by name.
        report: Told of each stage that is reached.
        debug: Called with the traceback of what goes wrong, before it is written down.
        line: To the pytest side, for rounds in turns with another process.
    """

    def __init__(
        self,
        models: dict[str, Model],
        report: StageReport,
        debug: Callable[[TracebackType | None], object] | None = None,
        line: Line | None = None,
    ) -> None:
        self._models = models
        self._report = report
        self._debug = debug
        self._line = line
        self._reference: tuple[tuple[str, str, str, int], Reference] | None = None
        self._treated: tuple[tuple[str, int], Treated] | None = None
        self._toolchain_is_warm = False
        #: Whether no further case is to be observed here: CUDA answers everything with an error
        #: now, or what ran out of memory may still hold some.
        self.is_spoiled = False
        for message in _EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message, UserWarning)

    def observe(self, request: Request) -> Observation:
        """Observe one case. Never raises for what the model or the compiler does wrong."""
        case = Case.parse(request.case)
        run = CaseRun(self._models[case.model], case, request, self._report, line=self._line)
        try:
            missing = run.missing_package()
            if missing is not None:
                return run.observation("unavailable", missing)
            run.treated = self._treated_for(run)
            with put_back(), self._cache(request, run):
                run.observe(lambda draws: self._reference_for(run, draws))
                self.is_spoiled |= run.ran_out_of_memory
            return run.observation("completed", None)
        except Exception as error:
            if (cause := out_of_memory.said_in(error)) is not None:
                self.is_spoiled = True
                return run.observation("out_of_memory", _out_of_memory(run, cause))
            if self._debug is not None:
                self._debug(error.__traceback__)
            return run.observation("raised", _failure(run, error))
        finally:
            self._clean_up(case.device)

    def _clean_up(self, device: str) -> None:
        """Leave nothing of a case to the next one, if the GPU still answers."""
        try:
            compile_log.reset()  # CUDA graphs, too
            gc.collect()
            if device == "cuda":
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
        except RuntimeError:
            if device != "cuda":
                raise
            self.is_spoiled = True

    def _reference_for(self, run: CaseRun, draws: bool) -> Reference:
        """The reference of a case, which others of its model may share.

        What a model draws depends on its dtypes, and the reference is given the same.
        """
        precision = run.case.precision if draws else ""
        key = (run.case.device, run.case.phase, precision, run.request.seed)
        if self._reference is None or self._reference[0] != key:
            self._reference = None
            gc.collect()  # it and the case that made it hold each other
            self._reference = (key, Reference(run.build))
        return self._reference[1]

    def _treated_for(self, run: CaseRun) -> Treated:
        key = (run.case.device, run.request.seed)
        if self._treated is None or self._treated[0] != key:
            with run.ledger.spend("signal"), one_thread(), put_back():
                self._treated = (key, treat(run.model, *key, self._report))
        return self._treated[1]

    @contextlib.contextmanager
    def _cache(self, request: Request, run: CaseRun) -> Iterator[None]:
        """A fresh compile cache where the case is to compile cold.

        The toolchain is warmed first (instruction-set checks, precompiled headers): they are paid
        once a machine, not once a model.
        """
        if not request.cold:
            yield
            return
        if not self._toolchain_is_warm and request.backend == "inductor":
            with run.ledger.spend("warm_toolchain"):
                device = run.case.device
                torch.compile(lambda x: x + 1)(torch.ones(8, device=device))
                compile_log.reset()
            self._toolchain_is_warm = True
        failure: Exception | None = None
        with inductor_utils.fresh_cache():  # it keeps its files where an error passes through it
            try:
                yield
            except Exception as error:
                failure = error
        if failure is not None:
            raise failure


def _out_of_memory(run: CaseRun, error: BaseException) -> Failure:
    """What was too much, how far it had come, and what others had left of the GPU."""
    peak = ""
    others: float | None = 0.0
    if run.case.device == "cuda":
        others = None
        with contextlib.suppress(RuntimeError):  # a driver without a byte left says nothing
            free, total = torch.cuda.mem_get_info()
            others = (total - free - torch.cuda.memory_reserved()) / total
            most = torch.cuda.max_memory_allocated()
            peak = f"; peak allocated {most / 2**30:.1f} GiB of {total / 2**30:.1f} GiB"
    lines = str(error).strip().splitlines()
    return Failure(
        stage=run.stage,
        kind=type(error).__name__,
        message=f"{lines[0].partition('. ')[0] if lines else 'out of memory'}{peak}",
        traceback="".join(_own_frames(error)),
        held_by_others=others,
    )


def _failure(run: CaseRun, error: Exception) -> Failure:
    return Failure(
        stage=run.stage,
        kind=type(error).__name__,
        message=error_text.of(error),
        call=run.raised_alone,
        traceback="".join(_own_frames(error)),
    )


def _own_frames(error: BaseException) -> list[str]:
    """The traceback without the frames of this package, which are of no use to the reader."""
    ours = (os.path.dirname(__file__), os.path.dirname(registry.__file__))
    chain = traceback.TracebackException.from_exception(error)
    link: traceback.TracebackException | None = chain
    while link is not None:
        kept = [frame for frame in link.stack if not frame.filename.startswith(ours)]
        link.stack = traceback.StackSummary.from_list(kept)
        link = link.__cause__ or link.__context__
    return list(chain.format())
