"""How much memory a case needs, estimated from one of its calls."""

from __future__ import annotations

#: Bytes of a parameter on the device: of eager and of compiled code in float32, and of the
#: reference in float64.
_OF_A_PARAMETER = 16
#: By this factor the reference in float64, and what the comparison copies, need more than a call.
_OF_A_CALL = 6
#: Bytes of a process, whatever it observes: the CUDA context, or PyTorch and its compiler.
_OF_A_PROCESS = 2 << 30


def needed_bytes(*, parameters: int, peak_bytes: int) -> int:
    """Return the bytes that the process which observes a case needs on the device.

    Args:
        parameters: The number of the model's parameters.
        peak_bytes: The most bytes that one call allocates.
    """
    return _OF_A_PROCESS + _OF_A_PARAMETER * parameters + _OF_A_CALL * peak_bytes
