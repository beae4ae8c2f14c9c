"""Random numbers that are drawn inside ``torch.utils.checkpoint``, whose backward draws them again.

https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
from torch import fx
from torch._higher_order_ops.wrap import TagActivationCheckpoint

from compilegate.observe.capture import compile_log
from compilegate.observe.dissect.graph import frames_of
from compilegate.observe.model.dispatch_mode import Mode
from compilegate.observe.model.forward import setting
from compilegate.observe.model.random_draws import draws
from compilegate.records.case import Case
from compilegate.records.part import CheckpointDraws
from compilegate.zoo.example import Call

#: What Dynamo calls a checkpoint in its graphs.
_CHECKPOINTS = ("tag_activation_checkpoint", "wrap_activation_checkpoint")


def drawn(run: Any, call: Call, case: Case, *, with_grad: bool) -> dict[str, Any]:
    """Return the fields of :class:`CheckpointDraws` of a call.

    A graph that cannot be captured ends the search.

    Args:
        run: The module or function.
        call: Its arguments.
        case: The setting.
        with_grad: Whether grad mode is on in *infer*, too.
    """
    kept: dict[str, None] = {}
    renewed: dict[str, None] = {}

    def backend(graph: fx.GraphModule, _: Any) -> Any:
        made: Any = _Running(graph, kept, renewed)
        return made.run

    compile_log.reset()
    try:
        compiled: Any = torch.compile(run, backend=backend, dynamic=False)
        with contextlib.suppress(Exception), setting(case, None, with_grad=with_grad):
            compiled(*call.args, **call.kwargs)
    finally:
        compile_log.reset()
    return asdict(CheckpointDraws((*kept,), (*renewed,)))


class _Running(fx.Interpreter):
    """Runs a graph, and notes which lines inside its checkpoints draw."""

    def __init__(
        self,
        graph: fx.GraphModule,
        kept: dict[str, None],
        renewed: dict[str, None],
        inside: dict[str, None] | None = None,
    ) -> None:
        super().__init__(graph)
        self._kept, self._renewed, self._inside = kept, renewed, inside

    def run_node(self, n: fx.Node) -> Any:
        if self._inside is None:
            return super().run_node(n)
        with _Watching() as watching:
            made = super().run_node(n)
        if watching.draws:
            frames = frames_of(n)
            line = f"{frames[-1].source}: {frames[-1].text}" if frames else f"`{n.target}`"
            self._inside.setdefault(line)
        return made

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(target, "__name__", "") not in _CHECKPOINTS:
            return super().call_function(target, args, kwargs)
        graph, *given = args
        lines = self._kept if kwargs.get("preserve_rng_state", True) else self._renewed
        inside: Any = _Running(graph, self._kept, self._renewed, lines)
        return inside.run(*given)


class _Watching(Mode):
    """Notes whether an operator draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.draws = False

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.draws |= draws(func, args, kwargs)
        return func(*args, **kwargs)


def keep_all() -> None:
    """Have a backward keep what checkpoints would compute again: right numbers stay the same.

    What Dynamo captures of a checkpoint runs as any code, so nothing marks it for the partitioner.
    """

    def run(_: Any, graph: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        with fx_traceback.preserve_node_meta():
            return fx.Interpreter(graph).run(*args)

    TagActivationCheckpoint.__call__ = run  # type: ignore[assignment, method-assign]
