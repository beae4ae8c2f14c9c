"""A step that cannot be taken: the model, a library or a version does not allow it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from compilegate.observe import error_text
from compilegate.observe.device import out_of_memory


class StepUnavailableError(Exception):
    """A step cannot be taken here. The message says why: a version, a library, the model."""


@contextlib.contextmanager
def unless_eager_raises() -> Iterator[None]:
    """Run eager code in this block.

    Raises:
        StepUnavailableError: Eager raises.
        Exception: One after which the process cannot continue.
    """
    try:
        yield
    except Exception as error:
        refuse_to_go_on(error)
        check_eager(error)


def check_eager(error: BaseException | None) -> None:
    """Check what a call of eager raised, if anything.

    Raises:
        StepUnavailableError: Eager raised.
    """
    if error is not None:
        raise StepUnavailableError(f"eager raises {error_text.with_kind(error)}") from error


def refuse_to_go_on(error: Exception) -> None:
    """Raise an error again after which the process cannot continue, or the step was never one."""
    if isinstance(error, StepUnavailableError) or out_of_memory.is_fatal(error):
        raise error
