"""The records of what ended the observation of a case early."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import traceback

import torch

from compilegate.observe import error_text
from compilegate.observe.capture import source_place
from compilegate.observe.device import out_of_memory
from compilegate.observe.device.protocol import Device
from compilegate.observe.device.unsupported import UnsupportedError
from compilegate.records.bounded_text import bounded
from compilegate.records.host_memory import MemoryAccount, gib, own_peak_bytes
from compilegate.records.observation import Failure, Stage
from compilegate.records.secret_values import masker
from compilegate.zoo import registry
from compilegate.zoo.import_failure import way_out_of

#: The folder of this package, and its modules that handle results and call no model.
_OWN = os.path.dirname(__file__)
_OF_RESULTS = (
    os.path.join(_OWN, "compare", ""),
    *(
        os.path.join(_OWN, "model", f"{name}.py")
        for name in (
            *("equality", "iterators", "kept", "nudging", "plain_values", "probes", "result"),
            *("snapshot", "state", "state_changes", "weight_changes"),
        )
    ),
)
#: The folder in which PyTorch and other libraries are, and Python's own.
_LIBRARIES = (os.path.dirname(os.path.dirname(torch.__file__)), os.path.dirname(os.__file__))
#: What PyTorch's allocator writes before its message: the check that failed.
_ALLOCATOR_CHECK = re.compile(r"^\[enforce fail at [^]]*\] [^.]*\. ")


def of_error(error: Exception, stage: Stage, raised_alone: str) -> Failure:
    """Return the record of an error.

    Args:
        error: What was raised.
        stage: The stage in which it was raised.
        raised_alone: The call in which compiled code raised it and eager did not; empty if eager
            raised it.
    """
    own = not raised_alone and _is_own(error)
    message = f"{error_text.of(error)}{way_out_of(error, source_place.roots())}"
    return Failure(
        stage=stage,
        kind=type(error).__name__,
        message=f"{message} (raised by compilegate itself: please report it)" if own else message,
        call=raised_alone,
        traceback=traceback_of(error, keeps_own=own),
    )


def of_missing_package(package: str) -> Failure | None:
    """Import a model's library; return the record of its error if it is absent or broken."""
    try:
        importlib.import_module(package)
    except Exception as error:
        message = f"{package} cannot be imported: {error}"
        return Failure(stage="build", kind=type(error).__name__, message=message)
    return None


def of_unsupported(error: UnsupportedError, stage: Stage) -> Failure:
    """Return the record of a case that eager cannot run on this device."""
    return Failure(stage=stage, kind=type(error.__cause__ or error).__name__, message=str(error))


def of_out_of_memory(
    error: BaseException, stage: Stage, device: Device, account: MemoryAccount
) -> Failure:
    """Return the record of running out of memory, with the limit and the peak.

    Args:
        error: What reports it.
        stage: The stage in which it was raised.
        device: Ran the case.
        account: The machine's memory that this process may use.
    """
    others: float | None = 0.0
    if out_of_memory.is_of_host(error):
        text = _ALLOCATOR_CHECK.sub("", error_text.of(error))
        peak = f"its peak was {gib(own_peak_bytes())}"
        message = "; ".join(filter(None, (text, account.describe(), peak)))
    else:
        peak = ""
        if device.allocator is not None:
            others = None
            with contextlib.suppress(RuntimeError):  # a driver without a byte left does not answer
                free, total = device.allocator.free_and_total()
                others = (total - free - device.allocator.reserved()) / total
                peak = f"; peak allocated {gib(device.allocator.peak_allocated())} of {gib(total)}"
        text = error_text.one_line(str(error)).partition(". ")[0] or "out of memory"
        message = f"{text}{peak}"
    return Failure(
        stage=stage,
        kind=type(error).__name__,
        message=message,
        traceback=traceback_of(error),
        held_by_others=others,
    )


def _is_own(error: BaseException) -> bool:
    """Whether this package raised an error by what it did with results, and not the model's code.

    Its innermost frame outside of libraries is then in a module that calls no model. An error of
    an accelerator may be that of an earlier kernel.
    """
    if isinstance(error, torch.AcceleratorError):
        return False
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    files = [file for file in files if file.startswith(_OWN) or not file.startswith(_LIBRARIES)]
    return bool(files) and files[-1].startswith(_OF_RESULTS)


def traceback_of(error: BaseException, *, keeps_own: bool = False) -> str:
    """Return the traceback without this package's frames, which mostly do not help the reader.

    Args:
        error: The error.
        keeps_own: Whether they stay, because this package is at fault.
    """
    ours = () if keeps_own else (_OWN, os.path.dirname(registry.__file__))
    chain = traceback.TracebackException.from_exception(error)
    link: traceback.TracebackException | None = chain
    while link is not None:
        kept = [frame for frame in link.stack if not frame.filename.startswith(ours)]
        link.stack = traceback.StackSummary.from_list(kept)
        link = link.__cause__ or link.__context__
    return bounded(masker()("".join(chain.format())))
