"""One side of a comparison: a freshly built model, and what each of its calls did."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from compilegate.observe import error_text, nested
from compilegate.observe.compare.error_figures import MARK
from compilegate.observe.device import out_of_memory
from compilegate.observe.model.calls import (
    PlannedCall,
    arguments,
    first_call,
    has_fixed_inputs,
    input_leaves,
    input_tensors,
    invoke,
    is_driven,
    reverse_rows,
)
from compilegate.observe.model.cotangents import Cotangents, scattered
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.global_state import Switches
from compilegate.observe.model.grad_scaling import Scaling
from compilegate.observe.model.random_draws import Tape
from compilegate.observe.model.result import (
    GENERATOR,
    KEPT,
    Placed,
    Result,
    aliases_of,
    copies,
    fingerprints,
    layout_of,
)
from compilegate.observe.model.seeding import (
    QuickWeights,
    factors,
    generator_state,
    seed_everything,
)
from compilegate.observe.model.state import attributes, cells_of, contents, orders, variables
from compilegate.observe.threads import one_thread
from compilegate.records.case import Case
from compilegate.zoo.example import Call, Example
from compilegate.zoo.registry import Model

AUTOCAST = {"bf16": torch.bfloat16, "f16": torch.float16}

#: By so much weights are moved between calls of *infer*: far more than rounding.
_MOVE = 0.02
#: Factors are multiples of one over this: the same number in single and in double precision.
_EXACTLY = 4096
#: The call from which on CUDA graphs are replayed; PyTorch does not tell what replays overwrite.
_REPLAYED = 2


def _models(error: Exception) -> Exception:
    """An error that the model raised, which is compared.

    Raises:
        Exception: It says that nothing more can be had of this process: memory ran out, or the
            GPU's context is lost.
    """
    if isinstance(error, torch.AcceleratorError) or out_of_memory.said_in(error):
        raise error
    return error


class SelectorError(Exception):
    """``Example.output`` cannot pick what is judged: a mistake of the recipe, not of the model."""


class Subject:
    """A model built under one seed, called under one setting.

    The reference, the eager and the compiled subject are each built anew by the recipe: copies
    would lose the memory that parameters and inputs share.

    Args:
        model: The zoo entry.
        case: Says device, phase and precision.
        seed: Of weights, inputs and cotangents.
        lifting: Makes it a reference: in the lifting's precision, without autocast.
        input_gradients: Whether floating inputs require grad in phase *train*.
        written_inputs: Names of those that do not: autograd does not let a model write to them.
        weights: Values that parameters and buffers take instead of those that they were built with.
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
        self.case = case
        self._seed = seed
        self._lifting = lifting
        self._input_gradients = input_gradients and case.phase == "train"
        self._written_inputs = written_inputs
        self._kept: dict[str, torch.Tensor] = {}
        #: A call, and the one whose forward comes before its backward.
        self._between: tuple[Call, Call] | None = None
        self._writes_parameters = False  # as far as the last call tells
        self._cotangents = Cotangents(seed)
        self._scaling: tuple[Call, Scaling] | None = None
        dtype = lifting.dtype if lifting else None
        self._recast = nested.Recast(case.device, dtype)
        seed_everything(seed)
        with one_thread(), QuickWeights():
            self.example: Example = model.example(case.device)
        self.module = self.example.module
        self._cells = cells_of(self.module)
        #: What is called: the module, or what compiling it returned.
        self.run: Callable[..., Any] = self.module
        if isinstance(self.module, nn.Module):
            self._make_lazy_parameters(self.module, model)
            self.module.train(case.phase == "train")
            with torch.no_grad():
                for name, tensor in {**self.parameters(), **self.buffers()}.items():
                    if weights and name in weights:
                        tensor.copy_(weights[name])
            self.module.to(case.device, dtype)

    def _make_lazy_parameters(self, module: nn.Module, model: Model) -> None:
        """Call a lazy module once, as PyTorch wants it before its parameters are used."""
        state = (*self.parameters().values(), *self.buffers().values())
        if any(map(nn.parameter.is_lazy, state)):
            call = arguments(self.example, first_call(model.sizes(self.case.device)))
            with torch.no_grad():
                module.eval()(*call.args, **call.kwargs)

    def parameters(self) -> dict[str, nn.Parameter]:
        """The module's parameters by name; none for a function."""
        return dict(self.module.named_parameters()) if isinstance(self.module, nn.Module) else {}

    def _named_parameters(self) -> dict[str, nn.Parameter]:
        return {f"parameter {name}": value for name, value in self.parameters().items()}

    def buffers(self) -> dict[str, torch.Tensor]:
        """The module's buffers by name; none for a function."""
        return dict(self.module.named_buffers()) if isinstance(self.module, nn.Module) else {}

    def state(self, call: Call) -> dict[str, Any]:
        """What a call may change besides its output, by name, as it is now.

        Its arguments and what is in the objects among them, buffers, plain attributes of modules,
        variables that functions close over, the output of an earlier call (which may share memory
        with something that changes, or live in the memory of a CUDA graph), and the random
        generator.
        """
        return {
            **input_leaves(call),
            **dict(orders(call.args, "input")),
            **{
                n: o for key, given in call.kwargs.items() for n, o in orders(given, f"input.{key}")
            },
            **dict([*contents(call.args, "input"), *contents(call.kwargs, "input")]),
            **{f"buffer {name}": buffer for name, buffer in self.buffers().items()},
            **{f"attribute {name}": value for name, value in attributes(self.module)},
            **{f"closure {name}": value for name, value in variables(self._cells)},
            **self._kept,
            GENERATOR: generator_state(self.case.device),
        }

    def fingerprint(self) -> str:
        """Digest of the names, shapes and dtypes of parameters and buffers."""
        state = {**self.parameters(), **self.buffers()}
        text = "\n".join(f"{name} {tuple(t.shape)} {t.dtype}" for name, t in state.items())
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def prepare(self, planned: PlannedCall) -> Call:
        """The arguments of a call: fresh values by seed, moved, cast, ready to differentiate."""
        if planned.moved and self.case.phase == "infer":
            self._move_weights()
        seed_everything(self._seed + 1 + planned.index)
        call = self._given(planned)
        if planned.overlaps:
            self._between = (call, self._given(planned))
        if planned.index % 2 and has_fixed_inputs(self.example):
            reverse_rows([*input_tensors(call).values()])
        return call

    def _given(self, planned: PlannedCall) -> Call:
        """The arguments of a call: moved, cast, ready to differentiate."""
        call = arguments(self.example, planned)
        call.args, call.kwargs = self._recast(call.args), self._recast(call.kwargs)
        if self._input_gradients:
            for name, tensor in input_tensors(call).items():
                if tensor.is_floating_point() and tensor.is_leaf:
                    tensor.requires_grad_(name not in self._written_inputs)
        return call

    def overlapping(self, call: Call) -> list[Call]:
        """A call, and the one whose forward comes before its backward, if there is one."""
        if self._between is not None and self._between[0] is call:
            return [*self._between]
        return [call]

    def _move_weights(self) -> None:
        """Scale parameters and buffers in place, so that code that baked in their values shows.

        Each element by its own factor: a norm would cancel a common one. Marks, as in a buffer that
        masks, stay.
        """
        generator = torch.Generator(self.case.device).manual_seed(self._seed)
        with torch.no_grad():
            for tensor in {**self._named_parameters(), **self.buffers()}.values():
                kind = type(tensor)
                plain = tensor.is_floating_point() and kind in (nn.Parameter, torch.Tensor)
                if plain and tensor.numel() and float(tensor.abs().max()) < MARK:
                    single = torch.empty_like(tensor, dtype=torch.float32)  # on all sides
                    moves = (1 + _MOVE) * factors(single, _MOVE / 2, generator)
                    tensor.mul_((moves * _EXACTLY).round() / _EXACTLY)

    @contextlib.contextmanager
    def _setting(self) -> Iterator[None]:
        """Grad mode and autocast of the case, or the lifting of the reference."""
        autocast = AUTOCAST.get(self.case.precision)
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.case.phase == "train"))
            if self._lifting:
                stack.enter_context(self._lifting.active())
            elif autocast:
                stack.enter_context(torch.autocast(self.case.device, autocast))
            yield

    def forward(self, call: Call, switches: Switches | None = None) -> Any:
        """Call it; what is judged of its output."""
        if self.case.uses_cuda_graphs:
            torch.compiler.cudagraph_mark_step_begin()  # what was returned before may be reused
        with self._setting(), switches or contextlib.nullcontext():
            output = self.run(*call.args, **call.kwargs)
        return self._selected(output)

    def _selected(self, output: Any) -> Any:
        if self.example.output is None:
            return output
        given = f"given the {type(output).__name__} that the model returned"
        try:
            selected = self.example.output(output)
        except Exception as error:
            reason = error_text.with_kind(error)
            raise SelectorError(f"output=… of Example raised {reason}, {given}") from error
        if selected is None and output is not None:
            raise SelectorError(f"output=… of Example picked None, {given}")
        return selected

    def step(self, call: Call, tape: Tape | None = None, switches: Switches | None = None) -> Any:
        """The work of one call: forward and, in *train*, backward. Gradients start from nothing.

        Args:
            call: The arguments.
            tape: Records what the model draws.
            switches: Records which switches of the process it turns.
        """
        with tape.recording() if tape else contextlib.nullcontext():
            outputs = [self.forward(one, switches) for one in self.overlapping(call)]
        if self.case.phase == "train":
            with switches or contextlib.nullcontext():
                self._backward(outputs, call, tape)
        return outputs[0]

    def leaves(self, call: Call) -> list[torch.Tensor]:
        """What a step leaves gradients in: nothing in *infer*."""
        if self.case.phase == "infer":
            return []
        tensors = (*self.parameters().values(), *input_tensors(call).values())
        return [tensor for tensor in tensors if tensor.is_leaf and tensor.requires_grad]

    def forget_gradients(self, call: Call) -> None:
        """Drop all gradients, as ``zero_grad(set_to_none=True)`` does."""
        for tensor in (*self.parameters().values(), *input_tensors(call).values()):
            if tensor.is_leaf:
                tensor.grad = None

    def let_go(self) -> None:
        """Drop what earlier calls left: it may lie in memory that ends with their CUDA graphs."""
        self._kept = {}
        for parameter in self.parameters().values():
            parameter.grad = None

    def _backward(self, outputs: Sequence[Any], call: Call, tape: Tape | None) -> None:
        """Backward from fixed random cotangents over every floating output, of one after another.

        Calls that overlap begin from cotangents that lie in memory otherwise than outputs do.

        Args:
            outputs: Of the call, and of what was called since.
            call: The call, whose gradients these are.
            tape: Records what is drawn.
        """
        found = [nested.tensors(output, "output") for output in outputs]
        roots = [{p: t for p, t in tensors.items() if t.requires_grad} for tensors in found]
        if not any(roots):
            return
        scaling = self._scaling_of(call)
        for of_one in filter(None, roots):
            tensors = list(of_one.values())
            cotangents = [self._cotangents.of(path, tensor) for path, tensor in of_one.items()]
            if scaling:
                pairs = zip(scaling.scale(cotangents), tensors, strict=True)
                cotangents = [scaled.to(tensor.dtype) for scaled, tensor in pairs]
            if len(outputs) > 1:
                cotangents = [*map(scattered, cotangents)]
            with contextlib.ExitStack() as stack:
                if self._lifting:
                    stack.enter_context(self._lifting.active())
                if tape:
                    stack.enter_context(tape.recording())
                torch.autograd.backward(tensors, cotangents)
        if scaling:
            scaling.unscale()

    def _scaling_of(self, call: Call) -> Scaling | None:
        """What scales the gradients of a call, in float16."""
        if self.case.precision != "f16" or self._lifting:
            return None
        if self._scaling is None or self._scaling[0] is not call:
            self._scaling = (call, Scaling(self.leaves(call), self.case.device))
        return self._scaling[1]

    def functional(self, output: Any) -> float:
        """The number whose gradient :meth:`step` takes: ⟨cotangent, output⟩."""
        tensors = nested.tensors(output, "output").items()
        return sum(
            float((tensor.detach().double() * self._cotangents.of(path, tensor).double()).sum())
            for path, tensor in tensors
            if tensor.requires_grad
        )

    def call(
        self,
        call: Call,
        index: int,
        tape: Tape | None = None,
        around: AbstractContextManager[object] | None = None,
    ) -> Result:
        """Make the ``index``-th call and write down all that it did.

        Every subject draws the same random numbers in the same call.

        Args:
            call: The arguments and the actions around it.
            index: Its number.
            tape: Records what it draws.
            around: Entered for the model's own work alone.
        """
        if call.before is not None:  # it may step an optimizer, from the last call's gradients
            try:
                invoke(call.before, self.module)
            except Exception as error:
                return Result(error=_models(error))
        self.forget_gradients(call)
        seed_everything(self._seed + 1 + index)
        before = self.state(call)
        known = fingerprints(before, self._named_parameters())
        placed = self._placed(before)
        started = copies(self.parameters()) if index == 0 or self._writes_parameters else {}
        switches = Switches()
        result = Result(before=copies(before))
        try:
            with around or contextlib.nullcontext():
                output = self.step(call, tape, switches)
        except Exception as error:  # of other state nothing is promised then
            return Result(before=switches.before, state=switches.after, error=_models(error))
        finally:
            switches.put_back()
        result.before |= switches.before
        live = nested.tensors(output, "output")
        self._note_output(result, output, live, call)
        after = self.state(call)
        result.state |= copies(after) | switches.after
        now = fingerprints(after, self._named_parameters())
        result.written = frozenset(name for name in now if known.get(name) != now[name])
        result.stayed, result.moved = placed.until(self._placed(after))
        self._note_parameters(result, started)
        if call.after is not None:
            try:
                invoke(call.after, output)
            except Exception as error:
                return Result(error=_models(error))
        if self.case.uses_cuda_graphs:  # the last one: its memory is what the next call reuses
            kept = {f"{KEPT}{path}": tensor.detach() for path, tensor in live.items()}
            self._kept = kept if index < _REPLAYED else {}
        elif index == 0:
            self._kept = {f"first {path}": tensor.detach() for path, tensor in live.items()}
        return result

    def _placed(self, state: Mapping[str, Any]) -> Placed:
        """Where everything is but what CUDA graphs returned: they may move that."""
        own = {name: leaf for name, leaf in state.items() if not name.startswith(KEPT)}
        return Placed({**own, **self._named_parameters()})

    def _note_output(
        self, result: Result, output: Any, live: dict[str, torch.Tensor], call: Call
    ) -> None:
        """What was returned, and what gradients it has."""
        inputs = input_tensors(call)
        result.nesting = nested.structure(output)
        result.layout = {path: layout_of(tensor) for path, tensor in live.items()}
        result.aliases = aliases_of(live, {**inputs, **self.parameters(), **self.buffers()})
        result.output = copies(dict(nested.leaves(output, "output")))
        if self.case.phase == "train":
            result.gradients = copies(
                {name: parameter.grad for name, parameter in self.parameters().items()}
                | {n: t.grad for n, t in inputs.items() if t.is_leaf and t.requires_grad}
            )
            if self._scaling is not None:
                result.found_inf = result.state["found_inf"] = self._scaling[1].found_inf

    def _note_parameters(self, result: Result, started: Mapping[str, torch.Tensor]) -> None:
        """What the call wrote to parameters."""
        own = {n: p for n, p in self.parameters().items() if f"parameter {n}" in result.written}
        self._writes_parameters = bool(own)
        result.started = {name: started[name] for name in own.keys() & started.keys()}
        result.parameters = copies(self.parameters() if is_driven(self.example) else own)

    def update(self, rates: Mapping[str, float]) -> None:
        """One step of gradient descent from the last call's gradients.

        Args:
            rates: Step size by parameter.
        """
        with torch.no_grad():
            for name, parameter in self.parameters().items():
                if parameter.grad is not None and name in rates:
                    parameter.sub_(parameter.grad, alpha=rates[name])
