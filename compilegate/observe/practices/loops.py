"""A training loop around one model: losses, gradients, and an optimizer's steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from compilegate.observe.compare.eager_noise import UNIT
from compilegate.observe.model.calls import PlannedCall, input_tensors
from compilegate.observe.model.grad_scaling import SCALE
from compilegate.observe.model.seeding import factors, seed_everything
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.losses import loss_of
from compilegate.zoo.example import Call

#: The momentum of SGD, and the factor on the learning rate after each step of a schedule.
MOMENTUM, GAMMA = 0.9, 0.85
#: The learning rate of AdamW, and by how much it magnifies rounding: compiled code computes
#: ``1 - 0.999 ** step`` in float32, and divides by its root.
ADAM_RATE, ADAM_MAGNIFIES = 1e-3, 0.5 / (1 - 0.999)
#: The step whose loss becomes infinite where gradients are scaled: GradScaler must skip it.
OVERFLOW = 1
#: The scale must not grow while a loop runs.
_NEVER = 2**31 - 1
#: It is far from the seeds of weights and inputs.
_FIRST_SEED_OF_NUDGES = 3_000_017

#: A context manager for the forward or the backward of the micro-batch with this number.
Around = Callable[[int], AbstractContextManager[object]]


@dataclass(frozen=True)
class Recipe:
    """What a training script does in a step, in addition to forward, loss, backward and step.

    Attributes:
        optimizer: The optimizer: AdamW, or SGD with momentum.
        steps: The steps of its loop.
        plain: Whether it is the shortest loop of all: AdamW's defaults and nothing else. If not,
            the loop adds two micro-batches, clips gradients, lowers the rate and decays weights.
        scales: Whether it scales gradients, where the precision does not demand that.
    """

    optimizer: Literal["AdamW", "SGD"]
    steps: int = 20
    plain: bool = False
    scales: bool = False

    @property
    def micro_batches(self) -> int:
        """How many micro-batches a step adds up."""
        return 1 if self.plain else 2

    def __str__(self) -> str:
        if self.plain:
            return f"plain {self.optimizer}"
        named = self.optimizer if self.optimizer == "AdamW" else "SGD with momentum"
        scaler = ", GradScaler" if self.scales else ""
        return f"{named}, clipping, schedule, accumulation{scaler}"


@dataclass(frozen=True)
class Strengths:
    """Constants of a loop, chosen by a model so that each part of a step shows in its weights.

    Attributes:
        max_norm: The norm that gradients are clipped to: half of that of the first gradient.
        rate: The learning rate of SGD. With it, a step at full momentum moves the weights by half a
            percent of their norm.
        decay: The weight decay of SGD, which is 0.3 of a clipped gradient.
        adam_decay: The weight decay of AdamW, which is 0.2 of a step for a weight of usual size.
        adam_eps: The ``eps`` of AdamW: a clipped gradient of usual size. With PyTorch's default,
            the first step is the sign of each gradient, and rounding decides that of one near zero.
    """

    max_norm: float
    rate: float
    decay: float
    adam_decay: float
    adam_eps: float

    @classmethod
    def of(cls, gradient: float, weights: float, count: int) -> Strengths:
        """Return the constants for a model.

        Args:
            gradient: The norm of its first gradient.
            weights: The norm of its weights.
            count: The number of its weights.
        """
        max_norm = gradient / 2
        return cls(
            max_norm=max_norm,
            rate=0.005 * weights / max_norm,
            decay=0.3 * max_norm / weights,
            adam_decay=0.2 * count**0.5 / weights,
            adam_eps=max_norm / count**0.5,
        )


@dataclass
class Nudges:
    """Random factors near one, as large as a rounding error, on what a loop computes with.

    Args:
        amount: The largest distance of a factor from one.
        device: ``cpu`` or ``cuda``.
        seed: Their seed.
    """

    amount: float
    device: str
    seed: int

    def __post_init__(self) -> None:
        seed = _FIRST_SEED_OF_NUDGES + self.seed
        self._generator = torch.Generator(self.device).manual_seed(seed)

    def apply(self, tensor: torch.Tensor) -> None:
        """Multiply a floating tensor by such factors, in place."""
        if tensor.is_floating_point():
            with torch.no_grad():
                tensor.mul_(factors(tensor, self.amount, self._generator))

    def rate(self, value: float, magnified: float) -> float:
        """Return a learning rate that is off as if a constant of the optimizer were rounded.

        Args:
            value: The rate.
            magnified: By how much the optimizer magnifies the rounding of its constants.
        """
        drawn = torch.rand((), generator=self._generator, device=self.device)
        return value * (1 + magnified * UNIT["f32"] * (2 * float(drawn) - 1))


@dataclass(frozen=True)
class Snapshot:
    """What a loop has reached.

    Attributes:
        losses: The loss of each micro-batch so far.
        updates: The change of each parameter since the loop began.
        buffers: The model's buffers.
        skipped: The steps that ``GradScaler`` skipped.
    """

    losses: torch.Tensor
    updates: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    skipped: tuple[int, ...]


@contextlib.contextmanager
def nothing_around(index: int) -> Iterator[None]:
    """Add nothing to a micro-batch."""
    yield


class Loop:
    """Trains a subject step by step, as a script does.

    Args:
        subject: The model, at the weights that the loop begins with.
        recipe: What a step does.
        strengths: The constants of the recipe.
        sizes: The sizes of a micro-batch by name.
        seed: The seed of inputs, targets and random numbers.
        tensor_rate: Whether the learning rate is a tensor, which a compiled optimizer reads. It
            would compile again for each float.
        nudges: Nudges the weights and the rate at the beginning, and the inputs of each
            micro-batch.
        reference: Whether the subject is a reference, which scales no gradients.

    Attributes:
        optimizer: The optimizer.
        around_forward: A context manager for the forward of each micro-batch.
        around_backward: A context manager for the backward of each micro-batch.
        losses: The loss of each micro-batch so far.
        skipped: The steps that ``GradScaler`` skipped.
    """

    def __init__(
        self,
        subject: Subject,
        recipe: Recipe,
        strengths: Strengths,
        sizes: dict[str, int],
        seed: int,
        *,
        tensor_rate: bool = False,
        nudges: Nudges | None = None,
        reference: bool = False,
    ) -> None:
        self._subject, self._recipe, self._strengths = subject, recipe, strengths
        self._sizes, self._seed, self._nudges = sizes, seed, nudges
        if nudges:
            for parameter in subject.parameters().values():
                nudges.apply(parameter)
        self._initial = _copies(subject.parameters())
        self._trained = [p for p in subject.parameters().values() if p.requires_grad]
        self.optimizer = self._make_optimizer(tensor_rate=tensor_rate)
        gamma = 1.0 if recipe.plain else GAMMA
        self._schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, gamma)
        scales = not reference and (recipe.scales or subject.case.precision == "f16")
        device = subject.case.device
        self._scaler = torch.amp.GradScaler(
            device, init_scale=SCALE, growth_interval=_NEVER, enabled=scales
        )
        self.around_forward: Around = nothing_around
        self.around_backward: Around = nothing_around
        self.losses: list[torch.Tensor] = []
        self._steps = 0
        self.skipped: list[int] = []

    def _make_optimizer(self, *, tensor_rate: bool) -> torch.optim.Optimizer:
        recipe, strengths = self._recipe, self._strengths
        is_adam = recipe.optimizer == "AdamW"
        rate: Any = ADAM_RATE if is_adam else strengths.rate
        if self._nudges:
            rate = self._nudges.rate(rate, ADAM_MAGNIFIES if is_adam else 1.0)
        if tensor_rate:
            rate = torch.tensor(rate)
        if recipe.plain:
            return torch.optim.AdamW(self._trained, lr=rate)
        if is_adam:
            eps, decay = strengths.adam_eps, strengths.adam_decay
            return torch.optim.AdamW(self._trained, lr=rate, eps=eps, weight_decay=decay)
        return torch.optim.SGD(
            self._trained, lr=rate, momentum=MOMENTUM, weight_decay=strengths.decay
        )

    def step(self, *, skips: bool = False) -> None:
        """Take one step.

        Args:
            skips: Whether the optimizer leaves the step out. A reference skips as eager does.

        Raises:
            StepUnavailableError: The model has no loss.
            Exception: What the model, autograd or the optimizer raises.
        """
        self.optimizer.zero_grad(set_to_none=True)
        for part in range(self._recipe.micro_batches):
            self.add_gradients(self._steps * self._recipe.micro_batches + part)
        if self._scaler.is_enabled():
            self._scaler.unscale_(self.optimizer)
        if not self._recipe.plain:
            nn.utils.clip_grad_norm_(self._trained, self._strengths.max_norm)
        if not skips:
            self._step_with_scaler()
        self._schedule.step()
        self._steps += 1

    def add_gradients(self, index: int) -> None:
        """Run forward and backward of a micro-batch."""
        call = self._arguments(index)
        with self.around_forward(index):
            output = self._subject.forward(call)
        loss = loss_of(output, self._seed + index)
        self.losses.append(loss.detach().clone())
        with self.around_backward(index):
            self._scaler.scale(loss / self._recipe.micro_batches * self._overflow()).backward()

    def _arguments(self, index: int) -> Call:
        call = self._subject.prepare(PlannedCall(index, self._sizes))
        for tensor in input_tensors(call).values():
            if tensor.is_leaf:
                tensor.grad = None
            if self._nudges:
                self._nudges.apply(tensor)
        seed_everything(self._seed + 1 + index)
        return call

    def _overflow(self) -> float:
        overflows = self._scaler.is_enabled() and self._steps == OVERFLOW
        return float("inf") if overflows else 1.0

    def _step_with_scaler(self) -> None:
        scale = self._scaler.get_scale()
        self._scaler.step(self.optimizer)
        self._scaler.update()
        if self._scaler.get_scale() < scale:
            self.skipped.append(self._steps)

    def gradient_norm(self) -> float:
        """Return the norm of the gradients that parameters hold."""
        norms = [p.grad.norm() for p in self._trained if p.grad is not None]
        return float(torch.stack(norms).norm()) if norms else 0.0

    def snapshot(self) -> Snapshot:
        """Return what the loop has reached."""
        parameters = self._subject.parameters()
        return Snapshot(
            losses=torch.stack(self.losses),
            updates={f"update {n}": parameters[n].detach() - p for n, p in self._initial.items()},
            buffers={f"buffer {n}": value for n, value in _copies(self._subject.buffers()).items()},
            skipped=tuple(self.skipped),
        )


def _copies(tensors: Any) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
