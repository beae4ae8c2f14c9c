"""Recognises the errors by which eager says that a processor cannot run a model in a setting.

Such a case has nothing to compare with, so it is unavailable: neither PyTorch nor the model is at
fault. The list is narrow on purpose. An error that it does not name is the model's own error, and
compiled code must raise it too.
"""

from __future__ import annotations

import re

from compilegate.observe import error_text

#: By the device that lacks something, what eager's error message begins with.
_MESSAGES = {
    # oneDNN has no implementation of an operation for the processor's instruction set: an LSTM in
    # bf16, for example, needs AVX-512. (It reads "a primitive" or "a primitive descriptor".)
    "processor": re.compile(r"could not create a primitive\b"),
    # A kernel of scaled dot-product attention that the model insists on: flash attention computes
    # in half precision alone on a GPU, and cuDNN's needs a recent one.
    "device": re.compile(r"No available kernel\b"),
}


class UnsupportedError(Exception):
    """Eager cannot run a case on this device; the message is the reason."""


def reason(error: Exception | None) -> str:
    """Return why eager cannot run a model here, or an empty string for every other error.

    Args:
        error: What the first eager call raised; None where it returned.
    """
    if not isinstance(error, RuntimeError):
        return ""
    for device, message in _MESSAGES.items():
        if message.match(str(error)):
            return f"eager cannot run this model on this {device}: {error_text.of(error)}"
    return ""
