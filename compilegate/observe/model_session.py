"""Observes the cases of one model, one after the other, each from a clean compiler."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Callable, Iterator
from types import TracebackType

import torch
from torch._inductor import utils as inductor_utils

from compilegate.observe import cache_folder, failures, foreign_bisection
from compilegate.observe.capture import compile_log
from compilegate.observe.case_run import CaseRun
from compilegate.observe.conditioning.signal import Treated, treat
from compilegate.observe.device import out_of_memory
from compilegate.observe.device.protocol import Device
from compilegate.observe.device.unsupported import UnsupportedError
from compilegate.observe.measure.alternation import ParentConnection
from compilegate.observe.model.global_state import put_back
from compilegate.observe.model.reference import MOST_KEPT, Reference
from compilegate.observe.threads import one_thread
from compilegate.records.case import Case
from compilegate.records.host_memory import MemoryAccount
from compilegate.records.observation import Observation
from compilegate.records.request import Request, StageReport
from compilegate.zoo.registry import Model

#: Warnings of PyTorch that the way of observing causes, and that no failure must show: TF32 is off
#: on purpose, the first backward runs in a thread that has not used the GPU, and each profile is
#: its own cycle.
_EXPECTED_WARNINGS = (
    "TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled",
    "Attempting to run cuBLAS, but there was no current CUDA context",
    "Warning: Profiler clears events at the end of each cycle",
    "Guards may run slower on Python 3.13.0",  # the header of a session says so
)

#: Next to other processes, the reference of a model stays for its next case if its results, and
#: all that this process then occupies of the device, have no more bytes.
_MOST_KEPT = 512 << 20

#: What determines the results of a reference: the model, the calls, its weights, the dtype of its
#: random numbers, and the seed.
ReferenceKey = tuple[str, tuple[str, str, bool], str, str, int]


class ModelSession:
    """The state that a model's cases share: treated weights, a reference per phase.

    Args:
        models: The zoo by name.
        report: Called with each stage that a case enters.
        debug: Called with the traceback of an error, before the error is recorded.
        parent: The connection to the parent process, for rounds that alternate with another one.

    Attributes:
        is_spoiled: Whether this process must observe no further case. The device answers everything
            with an error; what ran out of memory may still hold some; or compiled code raised where
            eager does not. PyTorch may then have left a context, such as a level of forward AD.
    """

    def __init__(
        self,
        models: dict[str, Model],
        report: StageReport,
        debug: Callable[[TracebackType | None], object] | None = None,
        parent: ParentConnection | None = None,
    ) -> None:
        self._models = models
        self._report = report
        self._debug = debug
        self._parent = parent
        self._reference: tuple[ReferenceKey, Reference] | None = None
        self._treated: tuple[tuple[str, str, int], Treated] | None = None
        self._toolchain_is_warm = False
        self._memory = MemoryAccount()
        self.is_spoiled = False
        foreign_bisection.ignore()
        for message in _EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message)

    def observe(self, request: Request) -> Observation:
        """Observe one case. An error of the model or the compiler is part of the record.

        Args:
            request: The case, and what to observe of it.
        """
        case = Case.parse(request.case)
        kills = self._memory.kills()
        run = CaseRun(self._models[case.model], case, request, self._report, parent=self._parent)
        try:
            if run.model.requires is not None:
                with run.progress.spend("import"):
                    missing = failures.of_missing_package(run.model.requires)
                if missing is not None:
                    return run.observation("unavailable", missing)
            treated = self._treated_for(run)
            with put_back(), self._cache(run):
                run.observe(treated, lambda draws: self._reference_for(run, draws))
                self.is_spoiled |= run.seen.ran_out_of_memory or run.seen.raised_in_probe
            return run.observation("completed", None)
        except UnsupportedError as error:
            failure = failures.of_unsupported(error, run.progress.stage)
            return run.observation("unavailable", failure)
        except Exception as error:
            killed = self._memory.kills() != kills
            return self._observation_of_error(run, error, killed=killed)
        finally:
            self._clean_up(run.device, is_shared=run.progress.machine.is_shared)

    def _observation_of_error(self, run: CaseRun, error: Exception, *, killed: bool) -> Observation:
        stage = run.progress.stage
        if (cause := out_of_memory.find(error, killed=killed)) is not None:
            self.is_spoiled = True
            failure = failures.of_out_of_memory(cause, stage, run.device, MemoryAccount())
            return run.observation("out_of_memory", failure)
        self.is_spoiled |= bool(run.seen.raised_alone)
        if self._debug is not None:
            self._debug(error.__traceback__)
        return run.observation("raised", failures.of_error(error, stage, run.seen.raised_alone))

    def _clean_up(self, device: Device, *, is_shared: bool) -> None:
        """Leave nothing of a case to the next one, if the device still answers.

        The reference stays for other cases of the model. Next to other processes, whose cases may
        need the memory, it must be small.
        """
        try:
            compile_log.reset()  # CUDA graphs, too
            gc.collect()
            device.synchronize()
            if device.allocator is not None:
                if is_shared and device.allocator.allocated() > _MOST_KEPT:
                    self._reference = None
                    gc.collect()
                device.allocator.release_unused()
                device.allocator.reset_peaks()
        except RuntimeError:
            if not device.can_be_lost:
                raise
            self.is_spoiled = True

    def _reference_for(self, run: CaseRun, draws: bool) -> Reference:
        """Return the reference of a case, which other cases of its model may share.

        The random numbers that a model draws depend on its dtypes, and the reference is given the
        same numbers. Under *static*, the calls are fewer.
        """
        case, precision = run.case, run.case.precision if draws else ""
        calls = (case.device, case.phase, case.dynamic == "static")
        key = (case.model, calls, case.weights, precision, run.request.seed)
        if self._reference is None or self._reference[0] != key:
            self._reference = None
            gc.collect()  # models hold themselves in cycles
            is_shared = run.device.allocator is not None and run.progress.machine.is_shared
            most_kept = _MOST_KEPT if is_shared else MOST_KEPT
            self._reference = (key, Reference(run.builder, most_kept=most_kept))
        return self._reference[1]

    def _treated_for(self, run: CaseRun) -> Treated:
        device, seed = run.case.device, run.request.seed
        key = (run.case.model, device, seed)
        if self._treated is None or self._treated[0] != key:
            with run.progress.spend("signal"), one_thread(), put_back():
                self._treated = (key, treat(run.model, device, seed, self._report))
        return self._treated[1]

    @contextlib.contextmanager
    def _cache(self, run: CaseRun) -> Iterator[None]:
        """Use a fresh compile cache where the case must compile cold.

        The toolchain is warmed first: instruction-set checks and precompiled headers are paid once
        on a machine, not once by each model. An error there is the compiler's, which the case
        shows itself where it concerns the model, and so is a death: not the model's, or eager's.
        """
        request = run.request
        if not request.cold:
            with cache_folder.of_precision(run.case.precision):
                yield
            return
        if not self._toolchain_is_warm and request.backend == "inductor":
            run.progress.enter("compile")
            with run.progress.spend("warm_toolchain"), contextlib.suppress(Exception):
                torch.compile(lambda x: x + 1)(torch.ones(8, device=run.case.device))
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
