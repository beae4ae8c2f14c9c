"""Weights in another number format than float32, as people cast them for serving and training.

A module is cast as a whole, ``module.to(torch.bfloat16)``, and so are floating inputs. Linear
layers are quantised by torchao, which keeps their weights in int8 and computes in float32.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from compilegate.observe.device.unsupported import UnsupportedError
from compilegate.observe.floating import has_arithmetic
from compilegate.records.case import Case

_HALVES = {"bf16_weights": torch.bfloat16, "f16_weights": torch.float16}


def half(case: Case) -> torch.dtype | None:
    """Return the half-precision dtype that a case casts its module to; None if it does not."""
    return _HALVES.get(case.weights)


def dtype_of(case: Case) -> torch.dtype:
    """Return the dtype that the weights of a case have, unless the model sets its own."""
    return half(case) or torch.float32


def quantises(case: Case) -> bool:
    """Whether a case quantises linear layers."""
    return case.weights == "int8_weights"


def cast(module: nn.Module, case: Case, *, lifted: torch.dtype | None) -> None:
    """Move a module to the device of a case, with weights in the number format of the case.

    Args:
        module: The module, whose weights are those of the recipe.
        case: The case.
        lifted: The dtype of a reference. It gets the weights that the format rounds: their
            rounding is no error of eager.

    Raises:
        UnsupportedError: The format needs a library that is not installed.
    """
    module.to(case.device, half(case))
    if quantises(case):
        _quantise(module)
        if lifted is not None:
            _dequantise(module)
    if lifted is not None:
        _lift(module, lifted)


def round_to(half: torch.dtype, tensors: Iterable[torch.Tensor]) -> None:
    """Round floating tensors in place to numbers that a dtype has."""
    with torch.no_grad():
        for tensor in tensors:
            if has_arithmetic(tensor):
                tensor.copy_(tensor.to(half))


def in_double(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in double precision; ``double()`` drops imaginary parts."""
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _lift(module: nn.Module, dtype: torch.dtype) -> None:
    """Move floating and complex weights to a precision; ``module.to`` drops imaginary parts."""

    def lifted(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex():
            return tensor.to(dtype.to_complex())
        return tensor.to(dtype) if has_arithmetic(tensor) else tensor

    module._apply(lifted)


def _quantise(module: nn.Module) -> None:
    """Replace the weights of linear layers by int8 numbers and one scale for each row.

    https://docs.pytorch.org/ao/stable/api_reference/generated/torchao.quantization.quantize_.html
    """
    try:
        quantization: Any = importlib.import_module("torchao.quantization")
        config = quantization.Int8WeightOnlyConfig()
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(_why_not(error)) from error
    quantization.quantize_(module, config)


def _why_not(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == "torchao":
        return "torchao is not installed"
    return f"torchao.quantization has no Int8WeightOnlyConfig: {error}"


def _dequantise(module: nn.Module) -> None:
    """Replace quantised weights by the floating numbers that they stand for."""
    for part in module.modules():
        for name, parameter in [*part.named_parameters(recurse=False)]:
            if hasattr(parameter, "dequantize") and type(parameter) is not nn.Parameter:
                plain: torch.Tensor = parameter.dequantize()
                setattr(part, name, nn.Parameter(plain, requires_grad=False))
