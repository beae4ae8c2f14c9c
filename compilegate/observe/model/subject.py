"""A subject: one side of a comparison, a freshly built model under one setting."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from compilegate.observe.model import cast_weights
from compilegate.observe.model.backward import Backward
from compilegate.observe.model.build import buffers_of, build, parameters_of
from compilegate.observe.model.call_recorder import CallRecorder
from compilegate.observe.model.calls import PlannedCall, input_tensors
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.forward import select_output, setting
from compilegate.observe.model.global_state import GlobalState
from compilegate.observe.model.preparation import Preparation
from compilegate.observe.model.random_draws import DrawRecording
from compilegate.observe.model.result import Result
from compilegate.observe.model.weight_changes import change_weights
from compilegate.records.case import Case
from compilegate.zoo.example import Call
from compilegate.zoo.registry import Model


class Subject:
    """A model built under one seed and called under one setting.

    The recipe builds the reference, the eager and the compiled subject separately. Copies would
    lose the memory that parameters and inputs share.

    Args:
        model: The zoo entry.
        case: The case, which determines device, phase and precision.
        seed: The seed of weights, inputs and cotangents.
        lifting: Makes the subject a reference, in the precision of the lifting, without autocast.
        input_gradients: Whether floating inputs require gradients in the phase *train*.
        written_inputs: The names of inputs that must not: autograd does not let a model write to
            inputs that require gradients.
        weights: Values that replace those of parameters and buffers, by name.

    Attributes:
        example: What the recipe returned.
        module: The module, or a function.
        recorder: Makes the judged calls, and knows what they left in shared variables.
        blocks: The path of the module whose children are compiled one by one; empty if none is.
        run: What :meth:`forward` calls: the module, or the result of compiling it.
        caches_casts: Whether autocast keeps the weights that it has cast until a call ends.
        compiles_itself: Whether a part of the eager model compiled itself in a call.
        asserts_ranges: Whether an operator of a call in eager may have asserted a range.
        returned: What the module returned in the last step, where ``Example.output`` picks a part.
    """

    def __init__(
        self,
        model: Model,
        case: Case,
        seed: int,
        *,
        lifting: Lifting | None = None,
        input_gradients: bool = True,
        written_inputs: Collection[str] = (),
        weights: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        self.case, self._seed, self._lifting = case, seed, lifting
        self.blocks = model.blocks if case.scope == "regional" else ""
        dtype = lifting.dtype if lifting else None
        self.example = build(model, case, seed, dtype=dtype, weights=weights)
        self.module = self.example.module
        self.run: Callable[..., Any] = self.module
        self.returned: Any = None
        self.caches_casts, self.compiles_itself, self.asserts_ranges = True, False, False
        self._preparation = Preparation(
            self.example,
            case,
            dtype,
            seed,
            input_gradients=input_gradients and _trains_inputs(case, self.module),
            written_inputs=written_inputs,
        )
        self._backward = Backward(case, seed, lifting, self.leaves)
        self.recorder = CallRecorder(self, seed)

    def parameters(self) -> dict[str, nn.Parameter]:
        """The parameters of the module, or of the modules that a function holds, by name."""
        return parameters_of(self.module)

    def buffers(self) -> dict[str, torch.Tensor]:
        """The buffers of the module, or of the modules that a function holds, by name."""
        return buffers_of(self.module)

    def hold(self, module: nn.Module) -> None:
        """Read parameters and buffers from another module, such as a copy of the model."""
        self.module = module
        self.recorder = CallRecorder(self, self._seed)

    def fingerprint(self) -> str:
        """Return a digest of the names, shapes and dtypes of parameters and buffers."""
        state = {**self.parameters(), **self.buffers()}
        text = "\n".join(f"{name} {tuple(t.shape)} {t.dtype}" for name, t in state.items())
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def prepare(self, planned: PlannedCall) -> Call:
        """Return the arguments of a call. Its weights change first, if the plan requires that.

        Quantised weights stay: their numbers cannot be scaled in place.
        """
        is_scaled = self.case.phase == "infer" and not cast_weights.quantises(self.case)
        if planned.moved and is_scaled:
            named = {f"parameter {name}": value for name, value in self.parameters().items()}
            tensors = {**named, **self.buffers()}.values()
            change_weights(tensors, self.case.device, self._seed)
            self._round_weights()
        return self._preparation.prepare(planned)

    def overlapping(self, call: Call) -> list[Call]:
        """Return a call, and the call whose forward runs before its backward, if there is one."""
        return self._preparation.overlapping(call)

    def forward(self, call: Call, global_state: GlobalState | None = None) -> Any:
        """Call the model. Return the part of its output that compilegate judges."""
        if self.case.uses_cuda_graphs:
            torch.compiler.cudagraph_mark_step_begin()  # earlier outputs may be overwritten
        grad, caches = self.example.with_grad, self.caches_casts
        entered = setting(self.case, self._lifting, with_grad=grad, caches_casts=caches)
        with entered, global_state or contextlib.nullcontext():
            output = self.run(*call.args, **call.kwargs)
        if self.example.output is not None:
            self.returned = output
        return select_output(self.example, output)

    def step(
        self,
        call: Call,
        recording: DrawRecording | None = None,
        global_state: GlobalState | None = None,
        kept: Callable[[], Mapping[str, torch.Tensor]] = dict,
    ) -> Any:
        """Run the forward and, in *train*, the backward of a call. Return the output.

        Args:
            call: The arguments. Their gradients must be empty.
            recording: Records the random numbers that the model draws.
            global_state: Records the process-wide switches that the model changes.
            kept: As for :meth:`.Backward.run`.
        """
        with recording.active() if recording else contextlib.nullcontext():
            outputs = [self.forward(call, global_state)]
            returned = self.returned
            outputs += [self.forward(one, global_state) for one in self.overlapping(call)[1:]]
            self.returned = returned
        if self.case.phase == "train":
            with global_state or contextlib.nullcontext():
                loss = self._preparation.loss_of(call)
                self._backward.run(outputs, call, recording, loss=loss, kept=kept)
        return outputs[0]

    def functional(self, output: Any) -> float:
        """Return the number whose gradient :meth:`step` computes: ⟨cotangent, output⟩."""
        return self._backward.functional(output)

    @property
    def found_inf(self) -> bool | None:
        """Whether a scaled gradient overflowed; None where gradients are not scaled."""
        return self._backward.found_inf

    def leaves(self, call: Call) -> list[torch.Tensor]:
        """The tensors in which a step leaves gradients; none in *infer*."""
        if self.case.phase == "infer":
            return []
        tensors = (*self.parameters().values(), *input_tensors(call).values())
        own = (tensor for tensor in tensors if tensor.is_leaf and tensor.requires_grad)
        return [*own, *self.recorder.leaves.values()]

    def forget_gradients(self, call: Call) -> None:
        """Drop all gradients, as ``zero_grad(set_to_none=True)`` does."""
        for tensor in (*self.parameters().values(), *input_tensors(call).values()):
            if tensor.is_leaf:
                tensor.grad = None

    def let_go(self) -> None:
        """Drop tensors of earlier calls. They may lie in memory that ends with a CUDA graph."""
        self.recorder.state.forget_outputs()
        for parameter in self.parameters().values():
            parameter.grad = None

    def call(
        self,
        call: Call,
        index: int,
        recording: DrawRecording | None = None,
        around: AbstractContextManager[object] | None = None,
    ) -> Result:
        """Make a call and record everything that it did. All subjects draw the same numbers in it.

        Args:
            call: The arguments, and the actions before and after the call.
            index: The number of the call.
            recording: Records the random numbers that the model draws.
            around: A context manager, entered for the work of the model alone.
        """
        return self.recorder.record(call, index, recording, around)

    def output_of(self, call: Call, output: Any) -> Result:
        """Record what :meth:`forward` returned for a call, and no more, also in threads."""
        return self.recorder.record_output(output, call)

    def update(self, rates: Mapping[str, float]) -> None:
        """Take one step of gradient descent with the gradients of the last call.

        Args:
            rates: The learning rate of each parameter.
        """
        with torch.no_grad():
            for name, parameter in self.parameters().items():
                if parameter.grad is not None and name in rates:
                    parameter.sub_(parameter.grad, alpha=rates[name])
        self._round_weights()

    def _round_weights(self) -> None:
        """Round the weights of a reference as those of eager are, after they changed."""
        half = cast_weights.half(self.case)
        if half and self._lifting:
            cast_weights.round_to(half, (*self.parameters().values(), *self.buffers().values()))


def _trains_inputs(case: Case, module: object) -> bool:
    """Whether floating inputs require gradients: in training in single precision.

    In half precision they do not, as in most training, so that this code is compiled, too. Without
    parameters, nothing else would have a gradient.
    """
    trainable = any(parameter.requires_grad for parameter in parameters_of(module).values())
    return case.phase == "train" and not (case.computes_in_half and trainable)
