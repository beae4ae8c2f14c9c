"""Judges from pairs of processes whether compiled code costs more from one PyTorch to the next.

One pair screens a case: what it shows is *indicative*, since autotuning and memory layout differ
from process to process. If a cost has grown there, it is a *suspect*. Its case gets K fresh
pairs, and only those judge it. If they find a small growth, the case gets K more, and all of them
judge. With c the logarithm of a figure of compiled code, D_k = c_baseline,k − c_candidate,k, the
cost has grown only if

- the 95% t interval of D lies below zero,
- the mean of D is below minus the *floor*: the budget's, or the machine's own spread if that is
  more,
- and it survives Benjamini-Hochberg at 5% over all suspects of all costs.

Memory is the same in each process: it is observed once more, and needs no statistics. Eager's
cost explains a growth, but does not excuse it.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from compilegate.judging.budget import Budget
from compilegate.records import environment_changes
from compilegate.records.case import device_of
from compilegate.records.pair import Costs, Pair
from compilegate.records.statistics import Shift, false_discovery, far_out, is_busy, shift
from compilegate.runs import files
from compilegate.runs.archive import Archive
from compilegate.upgrade.cost_change import CostChange, Kind
from compilegate.upgrade.costs import PAIRED, Cost

#: Fresh pairs that a suspect gets by default.
PAIRS = 5
#: Fewer do not judge.
FEWEST_PAIRS = 3
#: The fewest differences between processes of one version that show the machine's spread.
_FEWEST_OWN = 8

#: Returns the budget of a case, given its id.
BudgetOf = Callable[[str], Budget]
#: A case, and one of its costs.
Suspect = tuple[str, Cost]


def default_budget(case: str) -> Budget:
    """Return the budget of a case where no budgets file is known."""
    return Budget()


def screen(pair: Pair, budget_of: BudgetOf = default_budget) -> tuple[CostChange, ...]:
    """Return each cost's change in one pair."""
    return tuple(_screened(pair, cost, cost.floor(budget_of(pair.case))) for cost in PAIRED)


def _screened(pair: Pair, cost: Cost, floor: float) -> CostChange:
    figures = _figures(pair, cost)
    if figures is None:
        note = pair.failure or _other_start(pair, cost) or "one side did not measure it"
        return CostChange(pair.case, cost.name, "not measured", note=note)
    compiled = _point(figures)
    kind: Kind = "unchanged"
    slack = cost.slack_on(device_of(pair.case))
    if _grew(compiled.mean, figures, floor, slack):
        kind = "worse"
    elif _grew(-compiled.mean, figures[::-1], floor, slack):
        kind = "better"
    return CostChange(
        pair.case,
        cost.name,
        kind,
        compiled=compiled,
        eager=_eagers_point(pair, cost),
        figures=figures,
        floor=floor,
    )


def suspects(pair: Pair, budget_of: BudgetOf = default_budget) -> list[Cost]:
    """Return the costs that a screening pair shows grown."""
    return [change.of for change in screen(pair, budget_of) if change.kind == "worse"]


def own_spread(fresh: Iterable[Sequence[float]], one_version: Iterable[float] = ()) -> float:
    """Return how far apart two processes are on this machine if nothing changed.

    Tukey's outer fence, Q3 + 3·IQR, of differences between processes of one version; zero where
    there are too few of them.

    Args:
        fresh: Logarithms of the figures of one version in the fresh pairs of a suspect, in their
            order. Two successive ones give a difference.
        one_version: D of further pairs, both of whose sides ran the same version.
    """
    differences = [
        abs(a - b) for some in fresh for a, b in zip(some[::2], some[1::2], strict=False)
    ]
    differences += map(abs, one_version)
    return far_out(differences) if len(differences) >= _FEWEST_OWN else 0.0


def judge(
    pairs: Iterable[Pair],
    *,
    one_version: bool = False,
    budget_of: BudgetOf = default_budget,
) -> dict[str, tuple[CostChange, ...]]:
    """Judge all costs of all cases of a session together.

    Args:
        pairs: Those that screened, and the fresh ones of the suspects; each once.
        one_version: Whether both sides ran the same PyTorch. Screening pairs then also show the
            machine's spread.
        budget_of: Returns the budget of a case, with the growth that passes.

    Returns:
        One change for each cost, by case, for each case that was screened.
    """
    screening: dict[str, Pair] = {}
    fresh: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.number == 0:
            screening[pair.case] = pair
        else:
            fresh[pair.case].append(pair)
    found = {case: {c.cost: c for c in screen(p, budget_of)} for case, p in screening.items()}
    suspected = {
        (case, change.of): _measured(fresh[case], change.of)
        for case, changes in found.items()
        for change in changes.values()
        if change.kind == "worse"
    }
    statistical = {key: some for key, some in suspected.items() if not key[1].is_exact}
    same = screening.values() if one_version else ()
    spreads = {cost: _spread_of(cost, statistical, same) for cost in PAIRED if not cost.is_exact}
    survives = _survivors(statistical)
    for (case, cost), some in suspected.items():
        seen = found[case][cost.name]
        if cost.is_exact:
            judged = _observed_again(seen, some)
        else:
            spread = spreads[cost] / math.sqrt(len(some)) if some else 0.0  # of a mean of them
            floored = replace(seen, floor=max(seen.floor, spread), pairs=len(some))
            judged = _judged(floored, some, survives.get((case, cost)), fresh[case])
        found[case][cost.name] = replace(judged, lost=_lost(fresh[case]))
    return {case: tuple(changes.values()) for case, changes in found.items()}


def _measured(pairs: Iterable[Pair], cost: Cost) -> list[Pair]:
    """Return the pairs that measured a cost, without a throttled GPU if they suffice to judge."""
    measured = [pair for pair in pairs if _figures(pair, cost) is not None]
    calm = [pair for pair in measured if not _disturbance(pair)]
    return calm if len(calm) >= FEWEST_PAIRS else measured


def _spread_of(
    cost: Cost, suspected: Mapping[Suspect, Sequence[Pair]], one_version: Iterable[Pair]
) -> float:
    fresh = []
    for (_, other), some in suspected.items():
        if other is cost:
            both = filter(None, (_figures(pair, cost) for pair in some))
            fresh += [list(map(math.log, side)) for side in zip(*both, strict=True)]
    return own_spread(fresh, _differences(one_version, cost))


def _survivors(suspected: Mapping[Suspect, Sequence[Pair]]) -> dict[Suspect, bool]:
    """Return whether each suspect is significant among all of them."""
    tested = {key: some for key, some in suspected.items() if len(some) >= FEWEST_PAIRS}
    p_values = [shift(_differences(some, key[1])).p_below for key, some in tested.items()]
    return dict(zip(tested, false_discovery(p_values), strict=True))


def _lost(pairs: Iterable[Pair]) -> str:
    """Return the first fresh pair in which the candidate alone failed; empty if there is none."""
    for pair in pairs:
        if pair.baseline is not None and pair.candidate is None:
            return f"fresh pair {pair.number}: {pair.failure}"
    return ""


def _observed_again(seen: CostChange, pairs: Sequence[Pair]) -> CostChange:
    """Judge a cost that is the same in each process, by the next pair's measurement."""
    if not pairs:
        return replace(seen, kind="unsettled", note="it was not observed again")
    again = _screened(pairs[0], seen.of, seen.floor)
    assert again.compiled is not None
    assert seen.compiled is not None
    least = max(seen, again, key=lambda change: change.compiled.mean if change.compiled else 0.0)
    return replace(least, kind=again.kind, judged=True, pairs=1)


def _judged(
    seen: CostChange, pairs: Sequence[Pair], survives: bool | None, made: Sequence[Pair]
) -> CostChange:
    """Judge a suspect by its fresh pairs.

    Args:
        seen: What its screening pair showed, with the floor.
        pairs: The fresh pairs that measured the cost.
        survives: Whether it is significant among all suspects; None with too few pairs.
        made: All fresh pairs of the case.
    """
    cost = seen.of
    if survives is None:
        failures = [pair.failure for pair in made if pair.failure]
        why = failures[0] if failures else f"{FEWEST_PAIRS} fresh pairs are needed to judge it"
        return replace(seen, kind="unsettled", note=why)
    compiled = shift(_differences(pairs, cost))
    figures = _means(pairs, cost)
    kind, note = _kind(compiled, figures, seen.floor, cost.slack_on(device_of(seen.case))), ""
    if kind == "worse" and compiled.high >= 0:
        kind, note = "unsettled", "the interval reaches zero"
    elif kind == "worse" and not survives:
        kind, note = "unsettled", "with this number of suspects it may be chance"
    elif kind == "worse" and (note := _trouble(pairs, cost)):
        kind = "unsettled"
    eagers = filter(None, (_eager_figures(pair, cost) for pair in pairs))
    eager = [math.log(before / after) for before, after in eagers]
    return replace(
        seen,
        kind=kind,
        judged=True,
        compiled=compiled,
        eager=shift(eager) if len(eager) == len(pairs) else None,
        figures=figures,
        note=note,
    )


def _kind(compiled: Shift, figures: tuple[float, float], floor: float, slack: float) -> Kind:
    if _grew(compiled.mean, figures, floor, slack):
        return "worse"
    if compiled.low > 0 and _grew(-compiled.mean, figures[::-1], floor, slack):
        return "better"
    return "unchanged"


def _grew(change: float, figures: tuple[float, ...], floor: float, slack: float) -> bool:
    """Whether the second figure is the larger by more than floor and slack."""
    return change < -floor and figures[1] - figures[0] > slack


def _trouble(pairs: Sequence[Pair], cost: Cost) -> str:
    """Return another cause of a slower candidate: a throttled GPU or a busy processor."""
    for pair in pairs:
        if why := _disturbance(pair):
            return why
    sides = [side for pair in pairs for side in (pair.baseline, pair.candidate) if side]
    busy = statistics.median(map(cost.busy, sides))
    on_gpu = cost.want == "time" and device_of(pairs[0].case) != "cpu"
    return (
        f"other processes took {busy:.0%} of the processor" if is_busy(busy) and not on_gpu else ""
    )


def _disturbance(pair: Pair) -> str:
    sides = (side for side in (pair.baseline, pair.candidate) if side)
    return next((side.disturbance for side in sides if side.disturbance), "")


def _figures(pair: Pair, cost: Cost) -> tuple[float, float] | None:
    return None if _other_start(pair, cost) else _both(pair, cost.compiled)


def _other_start(pair: Pair, cost: Cost) -> str:
    """Return how the sides differed before they measured a cost; empty if that hardly matters."""
    if pair.baseline is None or pair.candidate is None:
        return ""
    ours, theirs = cost.before(pair.baseline), cost.before(pair.candidate)
    if ours is None or theirs is None or abs(theirs - ours) <= cost.slack:
        return ""
    return f"it includes gaps that earlier calls left, {cost.show(ours, theirs)}"


def _eager_figures(pair: Pair, cost: Cost) -> tuple[float, float] | None:
    return _both(pair, cost.eager)


def _both(pair: Pair, figure: Callable[[Costs], float | None]) -> tuple[float, float] | None:
    """Return the figures of both sides; None where one was not measured or is not positive."""
    if pair.baseline is None or pair.candidate is None:
        return None
    ours, theirs = figure(pair.baseline), figure(pair.candidate)
    if ours is None or theirs is None or min(ours, theirs) <= 0:
        return None
    return ours, theirs


def _differences(pairs: Iterable[Pair], cost: Cost) -> list[float]:
    """Return D of the pairs that measured a cost: negative where the candidate's is higher."""
    measured = (_figures(pair, cost) for pair in pairs)
    return [math.log(figures[0] / figures[1]) for figures in measured if figures]


def _means(pairs: Iterable[Pair], cost: Cost) -> tuple[float, float]:
    ours, theirs = zip(*filter(None, (_figures(pair, cost) for pair in pairs)), strict=True)
    return statistics.geometric_mean(ours), statistics.geometric_mean(theirs)


def _eagers_point(pair: Pair, cost: Cost) -> Shift | None:
    figures = _eager_figures(pair, cost)
    return _point(figures) if figures else None


def _point(figures: tuple[float, float]) -> Shift:
    """Return the shift of a single difference, which has no interval and no test."""
    change = math.log(figures[0] / figures[1])
    return Shift(mean=change, low=change, high=change, p_below=math.nan, count=1)


def cost_changes(baseline: Archive, candidate: Archive) -> dict[str, tuple[CostChange, ...]] | None:
    """Judge the pairs of two stored runs; None if they were not paired with each other.

    Raises:
        RunError: A line of the candidate's run is no record.
    """
    if candidate.header.baseline != files.name_of(baseline.path):
        return None
    if candidate.path.resolve().parent != baseline.path.resolve().parent:
        return None  # another night has runs of the same names
    sides = baseline.header.environment, candidate.header.environment
    pairs = (pair for case in candidate.cases for pair in candidate.pairs(case))
    return judge(pairs, one_version=not environment_changes.deciding(*sides))
