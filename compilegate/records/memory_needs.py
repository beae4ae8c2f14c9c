"""How much memory a case needs, estimated from one of its calls."""

from __future__ import annotations

#: Bytes of a parameter on the device: of eager and of compiled code in float32, and of the
#: reference in float64.
_OF_A_PARAMETER = 16
#: By this factor a case holds more than a call. On a GPU that is so most of the time: the reference
#: in float64, and what is compared, need up to six times as much for moments, which rarely
#: coincide. Where they do, a case is observed again. On a CPU, the kernel would kill a process.
_OF_A_CALL, _OF_A_CALL_ON_CPU = 2, 4
#: Bytes of a process, whatever it observes: the CUDA context, or PyTorch and its compiler.
_OF_A_PROCESS = 2 << 30


def needed_bytes(device: str, *, parameters: int, peak_bytes: int) -> int:
    """Return the bytes to plan for the process that observes a case.

    Args:
        device: The kind of device.
        parameters: The number of the model's parameters.
        peak_bytes: The most bytes that one call allocates.
    """
    factor = _OF_A_CALL_ON_CPU if device == "cpu" else _OF_A_CALL
    return _OF_A_PROCESS + _OF_A_PARAMETER * parameters + factor * peak_bytes
