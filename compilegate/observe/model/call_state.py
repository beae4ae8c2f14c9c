"""The state that a call may change in addition to its output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from compilegate.observe import nested
from compilegate.observe.model.build import buffers_of, parameters_of
from compilegate.observe.model.calls import input_leaves
from compilegate.observe.model.result import EARLY, GENERATOR, KEPT, own_attributes, tensors_on
from compilegate.observe.model.seeding import generator_state, python_generators
from compilegate.observe.model.shared_state import SharedState
from compilegate.observe.model.state import STRUCTURE, attributes, cells_of, contents, variables
from compilegate.records.case import Case
from compilegate.zoo.example import Call

#: The number of the first call that replays CUDA graphs. PyTorch does not report which outputs a
#: replay overwrites.
_REPLAYED = 2

#: How the names of tensors begin that a model or its arguments hold, and no other side.
_OWN = ("buffer ", "attribute ", "closure ", "input")


class CallState:
    """Reads the state of one subject.

    Args:
        module: The module, or a function.
        case: The case, which determines the device.
        shared: The variables that the module shares with other subjects.
    """

    def __init__(self, module: object, case: Case, shared: SharedState) -> None:
        self._module = module
        self._case = case
        self._shared = shared
        self._cells = cells_of(module)
        self._kept: dict[str, torch.Tensor] = {}

    def read(self, call: Call) -> dict[str, Any]:
        """Return everything that a call may change in addition to its output, by name.

        These are its arguments and the objects among them, buffers, plain attributes of modules,
        variables that functions close over, those that all sides share, random generators, and the
        output of an earlier call. That output may share memory with state, or lie in the memory
        of a CUDA graph.
        """
        inputs = input_leaves(call)
        return {
            **inputs,
            **{
                f"{path}.{name}": value
                for path, leaf in inputs.items()
                if isinstance(leaf, torch.Tensor)
                for name, value in (own_attributes(leaf) | tensors_on(leaf)).items()
            },
            f"input{STRUCTURE}": nested.structure([call.args, call.kwargs]),
            **dict([*contents(call.args, "input"), *contents(call.kwargs, "input")]),
            **{
                f"parameter {name}.{attribute}": value
                for name, parameter in parameters_of(self._module).items()
                for attribute, value in own_attributes(parameter).items()
            },
            **{f"buffer {name}": buffer for name, buffer in buffers_of(self._module).items()},
            **{f"attribute {name}": value for name, value in attributes(self._module)},
            **{f"closure {name}": value for name, value in variables(self._cells)},
            **dict(self._shared.read()),
            **self._kept,
            GENERATOR: generator_state(self._case.device),
            **python_generators(),
        }

    def keep_outputs(self, outputs: Mapping[str, torch.Tensor], index: int) -> None:
        """Keep the outputs of a call as state of later calls.

        With CUDA graphs, the outputs of the last call are kept, because the next call may reuse
        their memory. Otherwise, the outputs of the first two calls are kept.
        """
        if self._case.uses_cuda_graphs:
            kept = {f"{KEPT}{path}": tensor.detach() for path, tensor in outputs.items()}
            self._kept = kept if index < _REPLAYED else {}
        elif index < len(EARLY):
            kept = {f"{EARLY[index]}{path}": tensor.detach() for path, tensor in outputs.items()}
            self._kept = (self._kept if index else {}) | kept

    def forget_outputs(self) -> None:
        """Drop the outputs of earlier calls."""
        self._kept = {}


def early_outputs(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the outputs of the first two calls that a state holds, by name.

    A later output that lies in the memory of an earlier one would change with it.
    """
    return {name: value for name, value in state.items() if name.startswith(EARLY)}


def leaves_of(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors of a state that require gradients, and are no arguments, by name.

    A model may hold them as buffers, attributes, variables or in the objects of its arguments.
    Those that all sides share are left out.

    Args:
        state: What :meth:`CallState.read` returned.
    """
    tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    return {
        name: tensor
        for name, tensor in tensors.items()
        if name.startswith(_OWN) and tensor.is_leaf and tensor.requires_grad
    }


def tensors_held(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the tensors of a state that modules have as attributes, by name."""
    return {
        name: value
        for name, value in state.items()
        if name.startswith("attribute ") and isinstance(value, torch.Tensor)
    }
