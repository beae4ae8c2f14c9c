"""What eager does with the numbers of a probing call, before both sides make it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import torch

from compilegate.observe import error_text
from compilegate.observe.device import out_of_memory
from compilegate.observe.model.asserted_ranges import InRange, OutOfRangeError
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.equality import is_same
from compilegate.observe.model.integer_use import IndexUseError, OnlyArithmetic, WithinRange
from compilegate.observe.model.probes import Probe
from compilegate.observe.model.snapshot import Snapshot
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.repeating import LeftOutError
from compilegate.zoo.example import Call


def check_numbers(eager: Subject, planned: PlannedCall, probe: Probe, plain: Call) -> None:
    """See in eager whether a model computes with the integers, or with the attributes, at all.

    Args:
        eager: The model.
        planned: The probing call.
        probe: What it has.
        plain: The same call without that.

    Raises:
        LeftOutError: It does not.
    """
    if probe.is_integral:
        mode = OnlyArithmetic() if probe.changes_inputs else WithinRange()
        try:
            with _undone(eager), mode, torch.no_grad():
                eager.forward(plain)
        except Exception as error:
            is_use = isinstance(error, IndexUseError)
            raise LeftOutError(str(error) if is_use else raised_in_eager(error)) from error
    if probe.changes_numbers and not _depends_on_numbers(eager, planned):
        raise LeftOutError("no number of a module changes the output")


def check_range(eager: Subject, planned: PlannedCall, probe: Probe) -> None:
    """See in eager on a GPU whether other numbers become an index or a probability out of range.

    A CPU refuses them. A GPU loses its context, or reads and writes other memory. A model without
    such an operator is not called: what it keeps outside of its modules, such as a generator that
    it captures, would be a call ahead of compiled code's.

    Raises:
        LeftOutError: They do.
    """
    matters = eager.asserts_ranges and eager.case.device != "cpu"
    if not matters or not probe.changes_inputs or probe.is_integral:
        return
    try:
        with _undone(eager), InRange(), torch.no_grad():
            eager.forward(eager.prepare(planned))
    except OutOfRangeError as error:
        raise LeftOutError(str(error)) from error
    except Exception as error:  # the call itself shows every other one
        if out_of_memory.is_fatal(error):
            raise


def raised_in_eager(error: Exception) -> str:
    """Return the reason why a call is left out that raises in eager."""
    return f"in eager, {error_text.with_kind(error)}"


@contextlib.contextmanager
def _undone(eager: Subject) -> Iterator[None]:
    """Put back what a ``with`` block changes in a model."""
    before = Snapshot(eager.module, parameters=True, shared=eager.recorder.shared)
    try:
        yield
    finally:
        before.put_back()


def _depends_on_numbers(eager: Subject, planned: PlannedCall) -> bool:
    """Whether other floating attributes of modules change what eager returns."""
    found = []
    for one in (replace(planned, probe=None), planned):
        with _undone(eager):
            found.append(eager.call(eager.prepare(one), one.index).output)
    usual, other = found
    return usual.keys() != other.keys() or any(
        not is_same(value, other[path]) for path, value in usual.items()
    )
