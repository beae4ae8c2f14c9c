"""Compare the statistics of the random numbers that compiled code draws with its own generator.

In all other comparisons, compiled code draws as eager does (``fallback_random``), so that masks are
the same and values can be compared one by one. A user runs Inductor's own generator, which draws
other numbers.

Here the model is compiled with that generator. Many calls on one input are compared with the same
number of eager calls: the distance between calls, equal calls, rows of a batch or other elements
that vary together, the deviations of single elements, the mean, and the distribution of the drawn
numbers. The generator is seeded once
for many calls, which must advance it. With the same seed again, calls must return the same. In
*train*, the gradient is compared with the slope of the forward under one seed. That shows a
backward that draws another mask than its forward.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence

import torch

from compilegate.observe import nested
from compilegate.observe.compare import draw_shares, draw_statistics
from compilegate.observe.compare.layouts import compare_layouts
from compilegate.observe.model.calls import PlannedCall, input_tensors
from compilegate.observe.model.result import Result, layout_of
from compilegate.observe.model.seeding import seed_everything
from compilegate.observe.model.subject import Subject
from compilegate.observe.threads import one_thread
from compilegate.records.randomness import Draws, Randomness
from compilegate.records.statistics import log_gap
from compilegate.zoo.example import Call

#: The number of groups of calls, which shows the spread of the statistics, and the fewest and the
#: most calls of a group.
GROUPS, FEWEST, MOST = 6, 4, 48
#: The longest time for the calls of a side, in seconds, and the most elements of all outputs of a
#: group.
_BUDGET_S, _ELEMENTS = 1.5, 2_000_000
#: A group has at least this many elements, because few outputs show little in few calls. It then
#: has at most this many calls, and a side takes at most this many seconds. These limits are
#: generous, so that the result does not depend on how busy the machine is.
_FEWEST_ELEMENTS, _FEWEST_MOST, _PATIENCE_S = 4000, 24, 10.0
#: The outputs change by this share of their norm when the slope is measured. At a step of 1%,
#: curvature changes the slope of GPT-2 by 1.4%. At this step, rounding changes it by 0.01%.
_STEP = 0.003
#: If the slope is off by more than this, a step of this share of the first is taken, too. Between
#: two points, an activation such as SELU may have a kink. A slope along a wrong gradient stays off.
_ODD_SLOPE, _SHORTER = 0.002, 0.1
_FIRST_SEED = 1_000_003
#: The properties that are compared here. Every call compares the others.
_OF_THE_GENERATOR = frozenset({"structure", "type", "shape", "dtype"})
#: The comparison is repeated with more calls if the means differ by more than the first number, in
#: units of their expected distance. It is also repeated if the statistics of groups differ by more
#: than the second number, in standard errors, plus the third for rounding, or if some groups draw
#: nothing. The last number is the factor for the number of calls.
_SUSPICIOUS, _SUSPICIOUS_GAP, _ROUNDED_GAP, _MORE = 4.0, 2.0, 0.005, 4
#: It is also repeated if a share is this many standard errors from eager's.
_SUSPICIOUS_SHARE = 3.5
#: Rounding may change a mean by this share of the outputs.
_ROUNDING = {"f32": 1e-4, "bf16": 0.03, "f16": 0.01}


def observe(eager: Subject, compiled: Subject, planned: PlannedCall) -> Randomness | None:
    """Compare the random draws of both sides; None if the model returns no tensor.

    Args:
        eager: The eager model.
        compiled: The model with the same weights, compiled without ``fallback_random``.
        planned: The call whose inputs all calls use.
    """
    calls = [(subject, _prepared(subject, planned)) for subject in (eager, compiled)]
    group = _calls_of_a_group(*calls[0])
    if group == 0:
        return None
    factors = _factors(*calls[0])
    seen = _draw(calls, factors, _FIRST_SEED, group)
    if _is_suspicious(seen):  # chance is unlikely to do it twice, and more calls show more
        seen = _draw(calls, factors, _FIRST_SEED + seen.calls, _MORE * group)
    return seen


def _factors(subject: Subject, call: Call) -> dict[str, float]:
    """Return the outputs that depend on random numbers, by path, and factors to a common scale.

    These are floating outputs, and integers that differ from call to call. If no output is
    floating, they are all outputs.
    """
    returned = []
    for seed in range(FEWEST):
        seed_everything(_FIRST_SEED + seed)
        returned.append(nested.output_tensors(subject.forward(call)))
        floating = {path: t for path, t in returned[0].items() if t.is_floating_point()}
        if len(floating) in (0, len(returned[0])):
            return dict.fromkeys(returned[0], 1.0)
    size = _size(torch.cat([tensor.detach().flatten().double() for tensor in floating.values()]))
    drawn = {
        path: size / (_size(first) or 1.0)
        for path, first in returned[0].items()
        if path not in floating and not all(torch.equal(first, other[path]) for other in returned)
    }
    return dict.fromkeys(floating, 1.0) | drawn


def _size(tensor: torch.Tensor) -> float:
    """Return the root mean square of a tensor."""
    return float(tensor.double().square().mean().sqrt()) if tensor.numel() else 0.0


def _distance(ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor]) -> float:
    """Return the Euclidean distance of the outputs of two calls."""
    return math.sqrt(sum(float((a - b).square().sum()) for a, b in zip(ours, theirs, strict=True)))


def _is_suspicious(seen: Randomness) -> bool:
    if seen.mean_gap > _SUSPICIOUS or seen.same_pairs:
        return True
    if any(share.errors > _SUSPICIOUS_SHARE for share in seen.shares):
        return True
    for of in ("spreads", "alike", "tails"):
        sides = [getattr(seen.eager, of), getattr(seen.compiled, of)]
        if all(value > 0 for side in sides for value in side):
            gap, error = log_gap(*sides)
            if gap > _SUSPICIOUS_GAP * error + _ROUNDED_GAP:
                return True
        elif any(value > 0 for side in sides for value in side):
            return True
    return False


def _calls_of_a_group(subject: Subject, call: Call) -> int:
    """Return how many calls of a group fit into the limits; 0 if no tensor is returned."""
    taken_s, elements = math.inf, 0
    for _ in range(2):
        start = time.perf_counter()
        outputs = nested.output_tensors(subject.forward(call)).values()
        for output in outputs:
            output.flatten()[:1].tolist()  # waits for a GPU
        taken_s = min(taken_s, time.perf_counter() - start)
        elements = sum(output.numel() for output in outputs)
    if not elements:
        return 0
    each_s = GROUPS * taken_s
    needed = min(_FEWEST_ELEMENTS // elements, _FEWEST_MOST, int(_PATIENCE_S / each_s))
    affordable = int(min(_BUDGET_S / each_s, _ELEMENTS / elements, MOST))
    return max(affordable, needed, FEWEST)


def _draw(
    calls: Sequence[tuple[Subject, Call]],
    factors: Mapping[str, float],
    first_seed: int,
    group: int,
) -> Randomness:
    sides = [_Side(*call, factors, first_seed, group) for call in calls]
    means, drawn = [side.mean for side in sides], [side.drawn for side in sides]
    between = sum(side.variance for side in sides) / (GROUPS * group)
    # Compiled code rounds differently. However small the draws are, that is no other mean.
    rounding = _ROUNDING[calls[0][0].case.computes_in]
    between += rounding**2 * float(means[0].square().mean())
    gap = float((means[0] - means[1]).square().mean())
    with one_thread():
        shares = draw_shares.compare(*drawn, tensors=sides[0].tensors, groups=GROUPS)
        same_pairs = draw_shares.same_pairs(*drawn)
    return Randomness(
        calls=GROUPS * group,
        eager=sides[0].draws,
        compiled=sides[1].draws,
        mean_gap=gap / between if between else 0.0 if gap == 0 else math.inf,
        own_gap=max(side.own_gap() for side in sides),
        shares=shares,
        same_pairs=same_pairs,
        differences=tuple(
            difference
            for difference in compare_layouts(sides[0].shown, sides[1].shown)
            if difference.what in _OF_THE_GENERATOR
        ),
    )


def _prepared(subject: Subject, planned: PlannedCall) -> Call:
    """Return a call with its first row in every row: rows that share a mask then vary together."""
    call = subject.prepare(planned)
    if not subject.example.calls:
        with torch.no_grad():
            for tensor in input_tensors(call).values():
                if tensor.dim() > 1:
                    tensor.copy_(tensor[:1].clone().expand_as(tensor))
    return call


class _Side:
    """The calls of one side.

    Attributes:
        shown: The structure and the layout of the first output.
        draws: The statistics of the calls.
        mean: The mean output over all calls, flat.
        variance: The variance between calls, averaged over elements.
        drawn: The numbers of some elements.
        tensors: The tensors that are compared.
    """

    def __init__(
        self,
        subject: Subject,
        call: Call,
        factors: Mapping[str, float],
        first_seed: int,
        group: int,
    ) -> None:
        self._subject, self._call, self._group = subject, call, group
        self._factors = factors
        self.shown = Result()
        self.tensors: tuple[draw_shares.Tensor, ...] = ()
        # The slope comes first: CUDA graphs crashed in a backward after calls without one.
        slope = self._slope() if not subject.case.computes_in_half else None
        rounding = _ROUNDING[subject.case.computes_in]
        groups: list[draw_statistics.Group] = []
        previous: list[list[torch.Tensor]] = []
        group_means: list[torch.Tensor] = []
        total: torch.Tensor | float = 0.0
        self.variance = 0.0
        self.drawn = draw_shares.Drawn(rounding, GROUPS * group)
        repeats = 0
        for number in range(GROUPS):
            seed_everything(first_seed + number)
            outputs = [self._forward() for _ in range(group)]
            repeats += draw_statistics.repeats([*previous, *outputs]) - draw_statistics.repeats(
                previous
            )
            previous = outputs[-1:]
            self.drawn.add(outputs, self.tensors)
            flat = torch.stack([torch.cat([o.flatten() for o in output]) for output in outputs])
            variance = float(flat.var(0).mean())
            groups.append(draw_statistics.of_group(flat, outputs, rounding))
            self.variance += variance / GROUPS
            total = total + flat.sum(0)
            group_means.append(flat.mean(0))
        self.mean = torch.as_tensor(total) / (GROUPS * group)
        self._group_means = group_means
        again = [self._forward(first_seed) for _ in range(2)]
        apart = itertools.pairwise(outputs)
        self.draws = Draws(
            spreads=tuple(group.spread for group in groups),
            together=tuple(group.together for group in groups),
            alike=tuple(group.alike for group in groups),
            tails=tuple(group.tails for group in groups),
            repeats=repeats,
            again=_distance(*again) / (max(itertools.starmap(_distance, apart)) or 1.0),
            slope=slope,
        )

    def own_gap(self) -> float:
        """Return the largest distance between halves of the calls, in units of the expected one.

        It is near 1 if a call draws many independent numbers, and larger if it draws few.
        """
        expected = 4 * self.variance / (GROUPS * self._group)
        if not expected:
            return math.inf
        means = torch.stack(self._group_means)
        largest = 0.0
        for half in itertools.combinations(range(GROUPS), GROUPS // 2):
            other = [group for group in range(GROUPS) if group not in half]
            apart = means[list(half)].mean(0) - means[other].mean(0)
            largest = max(largest, float(apart.square().mean()) / expected)
        return largest

    def _forward(self, seed: int | None = None) -> list[torch.Tensor]:
        """Return the outputs of one call that depend on random numbers, as doubles on one scale.

        Elements that are not finite become zero: infinity has no distance from itself.
        """
        if seed is not None:
            seed_everything(seed)
        returned = self._subject.forward(self._call)
        tensors = nested.output_tensors(returned)
        if not self.shown.nesting:
            layout = {path: layout_of(tensor) for path, tensor in tensors.items()}
            self.shown = Result(nesting=nested.structure(returned, nested.Opening()), layout=layout)
            self.tensors = draw_shares.tensors_of(self._factors, tensors)
        known = ((tensors.get(path), factor) for path, factor in self._factors.items())
        finite = ((t.detach().double().nan_to_num(0, 0, 0), f) for t, f in known if t is not None)
        return [tensor * factor for tensor, factor in finite]

    def _slope(self) -> float | None:
        """Return the slope along the gradient, relative to the gradient's norm: 1 if correct."""
        subject, call = self._subject, self._call
        if subject.case.phase != "train":
            return None
        leaves = (*subject.parameters().values(), *input_tensors(call).values())
        subject.forget_gradients(call)
        seed_everything(_FIRST_SEED)
        subject.step(call)
        moved = [t for t in leaves if t.is_leaf and t.requires_grad and t.grad is not None]
        directions = [t.grad.clone() for t in moved if t.grad is not None]
        norm = math.sqrt(sum(float(d.double().square().sum()) for d in directions))
        size = math.sqrt(sum(float(o.square().sum()) for o in self._forward(_FIRST_SEED)))
        if not (norm > 0 and size > 0):
            return None
        step = _STEP * size / norm
        slope = self._slope_at(step / norm, moved, directions) / norm**2
        if abs(slope - 1) <= _ODD_SLOPE:
            return slope
        shorter = self._slope_at(_SHORTER * step / norm, moved, directions) / norm**2
        return min(slope, shorter, key=lambda value: abs(value - 1))

    def _slope_at(
        self, step: float, moved: Sequence[torch.Tensor], directions: Sequence[torch.Tensor]
    ) -> float:
        """Return the slope between the weights plus and minus ``step`` times the directions."""
        values = []
        for sign in (1.0, -2.0):  # in one direction, then in the other
            with torch.no_grad():
                for tensor, direction in zip(moved, directions, strict=True):
                    tensor.add_(direction, alpha=sign * step)
            values.append(self._functional())
        with torch.no_grad():
            for tensor, direction in zip(moved, directions, strict=True):
                tensor.add_(direction, alpha=step)
        return (values[0] - values[1]) / (2 * step)

    def _functional(self) -> float:
        """Return the number whose gradient was taken."""
        seed_everything(_FIRST_SEED)
        return self._subject.functional(self._subject.forward(self._call))
