"""Checks the tensors of a case against their bounds, and describes what is out of bounds."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compilegate.judging.borrowed_noise import (
    with_noise,
    with_noise_of_all_calls,
    with_noise_of_steps,
)
from compilegate.judging.chance import Excess, Groups, certain
from compilegate.judging.difference import describe_difference
from compilegate.judging.finding import Finding, shorten
from compilegate.judging.over_calls import over_calls
from compilegate.judging.pooled import as_a_whole
from compilegate.judging.scale_over_calls import scales_over_calls
from compilegate.judging.sentences import sentence
from compilegate.judging.single_rows import checks_of_rows
from compilegate.judging.tolerances import (
    beyond,
    in_half,
    is_on_cpu,
    widening,
)
from compilegate.records.call import (
    SHAPE,
    SIGN_OF_ZERO,
    CallFacts,
    Checked,
    Decision,
    TensorError,
    name_of_call,
    name_of_probe,
)
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.rounding import BLIND, is_blind, pooled_noise

#: Of this many near ties, one may have an answer that no nudged run gives.
UNANSWERED = 8

#: How the name begins of what ``Example.output`` does not pick.
UNPICKED = "unpicked "

#: More blind tensors than this share, and a verdict on gradients is inconclusive.
BLIND_SHARE = 0.5


@dataclass(frozen=True)
class Numerics:
    """The result of checking tensors against their bounds.

    Attributes:
        complaints: One line for each tensor that is out of bounds or differs exactly.
        excesses: The tensors that are out of bounds.
        tensors: How many were compared, over all calls.
        floating: How many floating tensors there were.
        blind: Why each tensor that could show nothing could not, by name.
        blind_times: In how many comparisons a tensor was blind.
        worst: Largest root mean square error of a compiled tensor that is not blind.
        ties: Integers that differ where nudged eager runs differ, too.
        undecided: Ties that compiled code decides otherwise than eager and the reference, a line
            each, where a nudged eager run does so, too.
        opaque: Values that could only be compared by type.
        compared: The number of values that were compared in full.
        always_zero: The number of tensors that are rightly zero.
        unsampled: Why eager could not make a call again to show its noise.
    """

    complaints: tuple[str, ...] = ()
    excesses: tuple[Excess, ...] = ()
    tensors: int = 0
    floating: int = 0
    blind: Mapping[str, str] = field(default_factory=dict)
    blind_times: int = 0
    worst: float = 0.0
    ties: int = 0
    undecided: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    compared: int = 0
    always_zero: int = 0
    unsampled: tuple[str, ...] = ()

    @property
    def finding(self) -> Finding | None:
        """The finding if a tensor is wrong, or if a tie leaves that open; None otherwise."""
        if self.complaints:
            return Finding.failure(_by_tensor(self.complaints), more=map(_unknown, self.unsampled))
        if self.undecided:
            return Finding("inconclusive", f"tie: {self.undecided[0]}", shorten(self.undecided))
        return None

    @property
    def notes(self) -> str:
        """The end of a summary: blind tensors, ties, and values compared by type only."""
        blind = f", {len(self.blind)} blind" if self.blind else ""
        ties = f", {self.ties} near ties resolved differently" if self.ties else ""
        zero = f", {self.always_zero} rightly zero" if self.always_zero else ""
        return blind + zero + ties + self.by_type_only

    @property
    def by_type_only(self) -> str:
        """The end of a summary: how many values were compared by type only, and the first."""
        count = len(self.opaque)
        return f", {count} compared by type only: {self.opaque[0]}" if count else ""

    @property
    def blind_lines(self) -> tuple[str, ...]:
        """The blind tensors, a line each."""
        return shorten([f"blind: {name} {why}" for name, why in self.blind.items()])


def _unknown(reason: str) -> str:
    return f"eager's noise may be larger: eager was to make a call again with nudges, but {reason}"


def _by_tensor(complaints: Sequence[str]) -> list[str]:
    """Return complaints with the first one of each tensor before all others."""
    first: dict[str, str] = {}
    others = []
    for line in complaints:
        name = line.partition(": ")[2].partition(": ")[0]
        if first.setdefault(name, line) is not line:
            others.append(line)
    return [*first.values(), *others]


def examine(observation: Observation, group: str) -> Numerics:
    """Check the tensors of a group (``outputs``, ``gradients``, ``state``) against their bounds."""
    calls = [
        (_name(observation, index), getattr(call, group))
        for index, call in enumerate(observation.calls)
    ]
    seen = examine_groups(observation, calls)
    half = in_half(observation)
    kinds = [(call.sizes, half and call.overlaps) for call in observation.calls]
    complaints = (
        *_certain_complaints(seen, calls, kinds, observation),
        *_complaints_of_rows(observation, group),
        *_complaints_over_calls(observation, group),
    )
    seen = replace(seen, complaints=complaints, unsampled=observation.unsampled)
    return _with_probes(seen, observation, group)


def _with_probes(seen: Numerics, observation: Observation, group: str) -> Numerics:
    """Add what the probing calls show. A tensor without a finite number in them is not blind."""
    calls = [
        (name_of_probe(one.probe, one.sizes), _awake(one, group)) for one in observation.probes
    ]
    extreme = frozenset(i for i, one in enumerate(observation.probes) if one.extreme)
    probed = examine_groups(observation, calls, extreme)
    return replace(
        seen,
        complaints=(
            *seen.complaints,
            *_certain_complaints(probed, calls, ["probing"] * len(calls), observation),
        ),
        tensors=seen.tensors + probed.tensors,
        floating=seen.floating + probed.floating,
        ties=seen.ties + probed.ties,
        undecided=(*seen.undecided, *probed.undecided),
        compared=seen.compared + probed.compared,
    )


def _awake(probe: CallFacts, group: str) -> Checked:
    """Leave out what is zero whatever the numbers: its errors grow with them. No rows have none."""
    checked: Checked = getattr(probe, group)
    if 0 in probe.sizes.values():
        return checked
    return replace(checked, errors=tuple(one for one in checked.errors if not one.always_zero))


def _certain_complaints(
    seen: Numerics,
    groups: Sequence[tuple[str, Checked]],
    kinds: Sequence[Hashable],
    observation: Observation,
) -> tuple[str, ...]:
    """Return the complaints without those of what may be chance."""
    of_calls = Groups([checked.errors for _, checked in groups], kinds)
    return _complaints(groups, certain(seen.excesses, of_calls, observation))


def examine_groups(
    observation: Observation,
    groups: Sequence[tuple[str, Checked]],
    extreme: Container[int] = (),
) -> Numerics:
    """Check named groups of tensors against their bounds.

    Args:
        observation: The case.
        groups: Each comparison, with the name that complaints begin with.
        extreme: The numbers of those with extreme inputs.
    """
    excesses: list[Excess] = []
    blind: dict[str, str] = {}
    tensors = compared = floating = blind_times = ties = 0
    opaque: dict[str, None] = {}
    always_zero: set[str] = set()
    worst = 0.0
    half, on_cpu = in_half(observation), is_on_cpu(observation)
    trains = Case.parse(observation.case).phase == "train"
    known = with_noise(groups, extreme)
    known = with_noise_of_steps(with_noise_of_all_calls(known)) if half else known
    for index, (_, checked) in enumerate(known):
        tensors += checked.tensors
        compared += checked.tensors - len(checked.opaque)
        floating += len(checked.errors)
        ties += checked.ties
        opaque |= dict.fromkeys(checked.opaque)
        pooled = pooled_noise(checked.errors)
        for error in checked.errors:
            if error.always_zero:
                always_zero.add(error.name)
            elif is_blind(error) and error.name.startswith(UNPICKED):
                pass  # it is compared as far as that goes: the recipe does not judge by it
            elif is_blind(error):
                blind_times += 1
                blind.setdefault(error.name, _why_blind(error))
            else:
                worst = max(worst, error.compiled_rms)
            factor = widening(error, observation)
            at = {"on_cpu": on_cpu, "extreme": index in extreme, "trains": trains}
            if found := beyond(error, pooled, factor, half=half, **at):
                excesses.append(Excess(index, error, found))
    return Numerics(
        complaints=_complaints(groups, excesses),
        excesses=tuple(excesses),
        tensors=tensors,
        floating=floating,
        blind=blind,
        blind_times=blind_times,
        worst=worst,
        ties=ties,
        undecided=tuple(
            f"{name}: {_tie(decision)}"
            for name, checked in groups
            for decision in checked.decisions
            if not _is_wrong(decision)
        ),
        opaque=tuple(opaque),
        compared=compared,
        always_zero=len(always_zero),
    )


def _complaints(
    groups: Sequence[tuple[str, Checked]], excesses: Sequence[Excess]
) -> tuple[str, ...]:
    lines = [
        (index, describe_difference(difference))
        for index, (_, checked) in enumerate(groups)
        for difference in checked.differences
    ]
    far_off = {(one.group, one.error.name) for one in excesses}
    lines += [
        (index, f"{_tie(decision)}, and no rounding error in eager's inputs gives this answer")
        for index, (_, checked) in enumerate(groups)
        for decision in checked.decisions
        if _is_wrong(decision) and (index, decision.where) not in far_off
    ]
    lines += [(one.group, sentence(one.error, one.beyond[0])) for one in excesses]
    return tuple(
        f"{groups[index][0]}: {line}" for index, line in sorted(lines, key=lambda line: line[0])
    )


def _is_wrong(decision: Decision) -> bool:
    return decision.elements - decision.answered > decision.answered // UNANSWERED


def _tie(decision: Decision) -> str:
    if decision.where.endswith(SIGN_OF_ZERO):
        return (
            f"{decision.where}: eager and the reference return {decision.eager}, compiled code "
            f"{decision.compiled} ({decision.elements} such elements)"
        )
    if decision.where.endswith(SHAPE):
        return (
            f"{decision.where}: eager has {decision.eager}, compiled code {decision.compiled}: "
            "rounding decides how many elements there are"
        )
    return (
        f"{decision.where}: eager and the reference decide on {decision.eager}, compiled code on "
        f"{decision.compiled} ({decision.elements} such elements, {decision.answered} of them ties "
        "that a rounding error decides)"
    )


def _name(observation: Observation, index: int) -> str:
    call = observation.calls[index]
    name = name_of_call(index, call.sizes)
    if not call.overlaps:
        return name
    return f"{name}, another forward before its backward, cotangents in another layout"


def _complaints_of_rows(observation: Observation, group: str) -> Iterator[str]:
    for error, check in checks_of_rows(observation, group):
        if not check.seen <= check.allowed:
            which = "single rows are" if check.what == "scale of single rows" else "some rows are"
            yield (
                f"{error.name} ({error.dtype}): {which} {100 * check.seen:.3g}% too large or too "
                f"small (eager {100 * check.eager:.3g}%, allowed {100 * check.allowed:.3g}%)"
            )


def _complaints_over_calls(observation: Observation, group: str) -> Iterator[str]:
    if group not in ("outputs", "gradients"):
        return
    whole = as_a_whole(observation, group)
    if whole is not None and whole.seen > whole.allowed:
        yield whole.text
    yield from (one.text for one in over_calls(observation, group) if one.seen > one.allowed)
    scales = scales_over_calls(observation, group)
    yield from (one.text for one in scales if abs(one.seen) > one.allowed)


def untreated(observation: Observation, group: str) -> str:
    """Return the scales of the first call's tensors, where the signal treatment was turned off."""
    if observation.signal != "off" or not observation.calls:
        return ""
    scales = [
        e.scale for e in getattr(observation.calls[0], group).errors if e.name[:6] != "update"
    ]
    if not scales:
        return ""
    zero = sum(scale == 0.0 for scale in scales)
    return (
        f"; signal off: {len(scales)} {group} of scale {min(scales):.2g} to {max(scales):.2g}"
        f", {zero} zero"
    )


def _why_blind(error: TensorError) -> str:
    if error.numel == 0:
        return "is nowhere finite"
    if error.scale == 0.0:
        return "is zero"
    moved = f"{error.eager_rms:.0%} of its scale in eager"
    if error.samples and error.eager_own < BLIND:  # only the nudged runs differ
        return f"changes by {moved} if weights and inputs move by a rounding error"
    return f"is off by {moved}"
