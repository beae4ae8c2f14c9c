"""Make a call of a subject and record everything that it did."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from compilegate.observe import nested
from compilegate.observe.device import out_of_memory
from compilegate.observe.model.call_state import CallState, early_outputs, leaves_of, tensors_held
from compilegate.observe.model.calls import input_tensors, invoke, is_driven
from compilegate.observe.model.fingerprints import fingerprints
from compilegate.observe.model.global_state import GlobalState
from compilegate.observe.model.kept_losses import histories, made_by_call
from compilegate.observe.model.random_draws import DrawRecording
from compilegate.observe.model.result import (
    KEPT,
    Placed,
    Result,
    aliases_of,
    copies,
    copy_of,
    identities_of,
    layout_of,
    sharing_of,
    strides_of,
    tensors_on,
)
from compilegate.observe.model.seeding import seed_everything
from compilegate.observe.model.shared_state import SharedState
from compilegate.observe.model.surroundings import Surroundings
from compilegate.observe.model.wrapped import in_parts
from compilegate.zoo.example import Call

if TYPE_CHECKING:
    from compilegate.observe.model.subject import Subject


class CallRecorder:
    """Makes the calls of one subject and records them.

    Args:
        subject: The subject.
        seed: The call with number ``index`` has the seed ``seed + 1 + index``.

    Attributes:
        shared: The variables that the subject shares with others.
        state: The state of the subject.
        leaves: The tensors in which the last call left gradients, except parameters and inputs.
    """

    def __init__(self, subject: Subject, seed: int) -> None:
        self.shared = SharedState(subject.module)
        self.state = CallState(subject.module, subject.case, self.shared)
        self.leaves: dict[str, torch.Tensor] = {}
        self._subject = subject
        self._seed = seed
        self._writes_parameters = False  # whether the last call wrote to parameters

    def record(
        self,
        call: Call,
        index: int,
        recording: DrawRecording | None = None,
        around: AbstractContextManager[object] | None = None,
    ) -> Result:
        """Make a call and return its result. See :meth:`Subject.call` for the arguments."""
        with self.shared.as_left() as began:
            result = self._record(call, index, recording, around)
        return replace(result, began=began)

    def _record(
        self,
        call: Call,
        index: int,
        recording: DrawRecording | None,
        around: AbstractContextManager[object] | None,
    ) -> Result:
        swaps_weights = False
        if call.before is not None:  # it may step an optimizer with the gradients of the last call
            held = self._weights()
            try:
                invoke(call.before, self._subject.module)
            except Exception as error:
                return Result(error=_models_own(error))
            swaps_weights = self._weights() != held
        self._subject.forget_gradients(call)
        seed_everything(self._seed + 1 + index)
        before = self.state.read(call)
        self.leaves = leaves_of(before) if self._subject.case.phase == "train" else {}
        for leaf in self.leaves.values():
            leaf.grad = None
        made_before = histories(before)
        known = fingerprints(before, self._named_parameters())
        placed, around_inputs = self._placed(before), Surroundings(input_tensors(call))
        started = self._starting_parameters(index)
        global_state = GlobalState()
        result = Result(before=copies(before), swaps_weights=swaps_weights)
        try:
            with around or contextlib.nullcontext():
                output = self._subject.step(
                    call,
                    recording,
                    global_state,
                    lambda: made_by_call(made_before, self.state.read(call)),
                )
        except Exception as error:  # PyTorch promises nothing about other state then
            raised = _models_own(error)
            return Result(before=global_state.before, state=global_state.after, error=raised)
        finally:
            global_state.put_back()
        result.before |= global_state.before
        outputs = nested.output_tensors(output)
        after = self.state.read(call)
        shareable = self._shareable(call, after)
        self._record_output(result, output, call, shareable)
        self._record_rest(result, outputs, shareable)
        result.state |= copies(after) | global_state.after
        now = fingerprints(after, self._named_parameters())
        result.written = frozenset(name for name in now if known.get(name) != now[name])
        after_call = self._placed(after)
        result.stayed, result.moved = placed.until(after_call)
        around_inputs.record(result)
        tensors = {name: leaf for name, leaf in after.items() if isinstance(leaf, torch.Tensor)}
        result.strides = {name: strides_of(tensor) for name, tensor in tensors.items()}
        if not self._subject.case.uses_cuda_graphs:
            result.sharing = sharing_of({**tensors, **self._named_parameters()})
        result.tracked = after_call.new_with_grad(placed)
        self._record_parameters(result, started)
        if call.after is not None:
            try:
                invoke(call.after, output)
            except Exception as error:
                return Result(error=_models_own(error))
        self.state.keep_outputs(outputs, index)
        return result

    def record_output(self, output: Any, call: Call) -> Result:
        """Return a result that has an output alone. Threads may record at once."""
        result = Result()
        self._record_output(result, output, call, self._shareable(call, {}))
        return result

    def _weights(self) -> dict[str, tuple[int, ...]]:
        """Fingerprints of parameters and buffers, which change if these are written to."""
        return fingerprints(self._subject.buffers(), self._named_parameters())

    def _named_parameters(self) -> dict[str, nn.Parameter]:
        return {f"parameter {name}": value for name, value in self._subject.parameters().items()}

    def _starting_parameters(self, index: int) -> dict[str, torch.Tensor]:
        """Copies of the parameters before a call, where the call is likely to write to them."""
        needed = index == 0 or self._writes_parameters
        return copies(self._subject.parameters()) if needed else {}

    def _placed(self, state: Mapping[str, Any]) -> Placed:
        """The place of everything except the outputs of CUDA graphs, which may move."""
        own = {name: leaf for name, leaf in state.items() if not name.startswith(KEPT)}
        return Placed({**own, **self._named_parameters()})

    def _record_output(
        self, result: Result, output: Any, call: Call, shareable: Mapping[str, torch.Tensor]
    ) -> None:
        """Record the output and the gradients."""
        subject, outputs = self._subject, nested.output_tensors(output)
        result.nesting = nested.structure(output, nested.Opening())
        result.layout = {path: layout_of(tensor) for path, tensor in outputs.items()}
        result.aliases = aliases_of(outputs, shareable)
        # A replay of a CUDA graph makes new tensors of its memory.
        is_replayed = subject.case.uses_cuda_graphs
        held = None if is_replayed else {**self._named_parameters(), **subject.buffers()}
        result.identities = identities_of(output, call, held)
        result.output = copies(in_parts(dict(nested.leaves(output, "output", nested.Opening()))))
        result.output |= {
            f"{path}.{name}": copy_of(held)
            for path, tensor in outputs.items()
            for name, held in tensors_on(tensor).items()
        }
        result.output |= copies(dict(nested.attributes_on(output, "output")))
        if subject.case.phase == "train":
            given = input_tensors(call).items()
            leaves: dict[str, torch.Tensor] = {
                **subject.parameters(),
                **{name: t for name, t in given if t.is_leaf and t.requires_grad},
                **self.leaves,
                **_retaining(outputs, subject),
            }
            gradients = {name: leaf.grad for name, leaf in leaves.items()}
            result.gradients = copies(in_parts(gradients))
            result.gradient_layouts = {
                name: str(gradient.layout).removeprefix("torch.")
                for name, gradient in gradients.items()
                if gradient is not None
            }
            found_inf = subject.found_inf
            if found_inf is not None:
                result.found_inf = result.state["found_inf"] = found_inf

    def _shareable(self, call: Call, state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Return the tensors whose memory an output may share, given the state after the call."""
        subject = self._subject
        held = {**input_tensors(call), **subject.parameters(), **subject.buffers()}
        if subject.case.uses_cuda_graphs:  # a replay writes to the memory of what it left before
            return held
        return {**tensors_held(state), **early_outputs(state), **held}

    def _record_rest(
        self,
        result: Result,
        picked: Mapping[str, torch.Tensor],
        shareable: Mapping[str, torch.Tensor],
    ) -> None:
        """Record what the recipe does not pick from the output, and let go of it."""
        whole, self._subject.returned = self._subject.returned, None
        if self._subject.example.output is None:
            return
        known = {id(tensor) for tensor in picked.values()}
        leaves = nested.leaves(whole, "unpicked output", nested.Opening())
        rest = {path: leaf for path, leaf in leaves if id(leaf) not in known}
        tensors = {path: leaf for path, leaf in rest.items() if isinstance(leaf, torch.Tensor)}
        result.rest = copies(in_parts(rest))
        result.layout |= {path: layout_of(tensor) for path, tensor in tensors.items()}
        result.aliases |= aliases_of(tensors, {**shareable, **picked})

    def _record_parameters(self, result: Result, started: Mapping[str, torch.Tensor]) -> None:
        """Record the parameters that the call wrote to."""
        parameters = self._subject.parameters()
        own = {n: p for n, p in parameters.items() if f"parameter {n}" in result.written}
        self._writes_parameters = bool(own)
        result.started = {name: started[name] for name in own.keys() & started.keys()}
        driven = is_driven(self._subject.example)
        result.parameters = copies(parameters if driven else own)


def _retaining(outputs: Mapping[str, torch.Tensor], subject: Subject) -> dict[str, torch.Tensor]:
    """Return the outputs that keep their gradient, because the model called ``retain_grad()``.

    Nobody unscales such a gradient in float16.
    """
    is_scaled = subject.found_inf is not None
    return {
        path: tensor for path, tensor in outputs.items() if tensor.retains_grad and not is_scaled
    }


def _models_own(error: Exception) -> Exception:
    """Return an error that the model raised, for comparison.

    Raises:
        Exception: The process cannot continue: memory ran out, or the GPU's context is lost.
    """
    if out_of_memory.is_fatal(error):
        raise error
    return error
