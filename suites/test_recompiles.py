"""torch.compile recompiles code only as often as the dynamic setting requires.

``static`` compiles again for each new size. ``auto`` compiles again once for each dimension that
varies, and treats it as dynamic from then on. ``dynamic`` and ``marked`` never compile again.
Hitting a recompile limit always fails, because Dynamo then runs the code eagerly without an error.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.recompilation.html
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from compilegate.judging import compiled_sizes
from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding, indented, shorten
from compilegate.judging.judge import Judge
from compilegate.records.call import CallFacts
from compilegate.records.case import Case
from compilegate.records.observation import Capture, Compilation, Observation, Place
from compilegate.records.recompilations import recompilations, total_of
from compilegate.records.wording import counted

#: What to do about a recompile limit: no number of recompilations lifts it.
_LIMIT_HELP = (
    "no budget key allows it, because the code runs eagerly from there on:",
    "change what the guards test, raise torch._dynamo.config.recompile_limit in",
    "a zoo file, or accept it in a budgets file:",
    '[[expected_failure]] with aspect = "recompiles" and a reason',
)

#: A guard on a size that is a constant, as one that the recipe does not mark.
_CONSTANT = re.compile(r"tensor '(.+)' size mismatch at index (\d+)")
#: A dimension of an argument, as the numbers of a call name it: ``[1].mask dim 0`` is of a keyword.
_DIMENSION = re.compile(r"\[[01]\](?P<path>(?:\[\d+\]|\.\w+)+) dim (?P<dim>\d+)")
_KEY = re.compile(r"\[(\d+)\]|\.(\w+)")
#: A guard on a product of two sizes.
_PRODUCT = re.compile(r"size\(\)\[\d+\]\s*\*\s*\S+\.size\(\)\[\d+\]")
#: The lines of Inductor that PyTorch names in a comment on a guard, and those that read a cache.
_OF_INDUCTOR = re.compile(r"\b_inductor/(?!codecache)\S+:\d+ in \w+")
_OF_A_CACHE = re.compile(r"\b(_inductor/codecache|_functorch/_aot_autograd/\w*cache)")


def allowed_by_setting(dynamic: str, calls: Sequence[CallFacts]) -> int:
    """How often one code object may be compiled again over these calls, as Dynamo would.

    A call that differs in more than a number (structure, dtype, another Python value, a changed
    attribute) rightly compiles again under every setting. ``auto`` makes those numbers dynamic that
    differ from their values at the last compilation, in everything that it compiles later.
    """

    def may_vary(name: str) -> bool:
        """Whether it becomes dynamic once it varies. Python numbers do so under ``marked``."""
        return dynamic == "auto" or (dynamic == "marked" and " dim " not in name)

    graphs: dict[str, list[dict[str, float]]] = {}  # by kind of call: the numbers that each is for
    known: dict[str, float] = {}
    varying: set[str] = set()
    if dynamic in ("dynamic", "marked"):
        varying = {name for call in calls for name in call.numbers if not may_vary(name)}
    for call in calls:
        made = graphs.setdefault(call.rest, [])
        if not any(_serves(graph, call.numbers) for graph in made):
            changed = {name for name, value in call.numbers.items() if known.get(name) != value}
            varying |= {name for name in changed & known.keys() if may_vary(name)}
            known |= call.numbers
            made.append(
                {
                    name: value
                    for name, value in call.numbers.items()
                    if name not in varying or _is_specialised(name, value)
                }
            )
    return sum(map(len, graphs.values())) - 1


def _serves(graph: Mapping[str, float], numbers: Mapping[str, float]) -> bool:
    """Whether a graph, with the numbers that it is for, also runs with these."""
    others = (name for name in numbers if name not in graph)
    special = any(_is_specialised(name, numbers[name]) for name in others)
    return not special and graph.items() <= numbers.items()


def _is_specialised(name: str, number: float) -> bool:
    """Whether it is a size of zero or one, for which Dynamo compiles again under every setting."""
    return " dim " in name and number < 2


def rule(observation: Observation, budget: Budget) -> Finding:
    """Dynamo recompiles no code object more often than its setting and budget allow."""
    capture = observation.capture
    assert capture is not None
    if capture.limits:
        guards = indented(_guards_at_limit(capture))
        details = (*capture.limits, *guards, *indented(_LIMIT_HELP))
        summary = f"recompile limit hit: {capture.limits[0]}"
        return Finding("failed", summary, details, complaints=capture.limits)
    returning = [call for call in observation.calls if not call.raised]
    made = [
        c
        for c in capture.compilations
        if c.graph and not _is_of_an_error(c, observation) and not _is_of_a_product(c, observation)
    ]
    unexpected = [item for item in made if not _is_known(item, budget)]
    compiled_again = recompilations(unexpected)
    most = max(compiled_again.values(), default=0)
    case = Case.parse(observation.case)
    dynamic = case.dynamic
    is_regional = case.scope == "regional"
    guarded = _of_blocks(returning) if is_regional else returning
    setting = allowed_by_setting(dynamic, guarded) if guarded else 0
    if is_regional:
        # Blocks share their code; those of another kind (a shifted window, say) need their own.
        first = Counter(c.code for c in made if c.call == made[0].call)
        kinds = max(first.values(), default=1)
        setting = (setting + 1) * kinds - 1
    # The model may mark dimensions itself: its first code is for all sizes then.
    is_due = dynamic == "static" or (
        dynamic == "auto" and not any(c.symbolic for c in made if c.call == made[0].call)
    )
    # What runs eagerly in each call, such as a kind of block, is reported as a graph break.
    if is_due and not (is_regional and capture.fallbacks):
        look = compiled_sizes.of_blocks if is_regional else compiled_sizes.of_model
        compiled = {c.call for c in capture.compilations if c.graph}
        if eagerly := look(observation.calls, compiled, dynamic):
            return Finding.failure(eagerly, more=indented(map(str, capture.fallbacks)))
    allowed = setting + budget.recompiles
    seen = f"{counted(most, 'recompilation')} of one code object, {allowed} allowed for {dynamic!r}"
    if known := sum(_is_known(item, budget) for item in capture.compilations):
        seen += f", not counting {known} whose guards are known to fail"
    if (total := total_of(capture)) > most + known:
        seen += f"; {total} of all code objects"
    if names := _without_effect(observation.calls):
        seen += f"; no input has a dimension {', '.join(names)}: no other size was tried"
    if most <= allowed:
        return Finding("passed", seen)
    beyond = {code for (code, _), count in compiled_again.items() if count > allowed}
    again = _history(beyond, capture)
    lines = [*_with_code(shorten([*again]), again)]
    if dynamic == "dynamic":
        lines += _equal_by_accident(returning)
    if dynamic == "marked":
        lines += _not_marked(again, observation.calls)
    if dynamic in ("auto", "dynamic"):
        lines += _fixed(again, at_most=0 if dynamic == "dynamic" else 1)
    proposal = {"recompiles": most - setting}
    return Finding("failed", seen, tuple(lines), proposal, complaints=tuple(again))


def _is_of_an_error(item: Compilation, observation: Observation) -> bool:
    """Whether a call made it that raises as in eager, and computes nothing."""
    return item.call < len(observation.calls) and bool(observation.calls[item.call].raised)


def _is_of_a_product(item: Compilation, observation: Observation) -> bool:
    """Whether a call in which several sizes differ made it, for a product of sizes.

    Inductor chooses kernels by such products. In calls in which one size differs, it counts.
    """
    if item.call >= len(observation.calls) or not _PRODUCT.search(item.reason):
        return False
    first, sizes = observation.calls[0].sizes, observation.calls[item.call].sizes
    return sum(size != first.get(name) for name, size in sizes.items()) > 1


def _is_known(item: Compilation, budget: Budget) -> bool:
    return any(guard in item.reason for guard in budget.recompile_guards)


def _without_effect(calls: Sequence[CallFacts]) -> list[str]:
    """Return the names of sizes that vary although all inputs have the same shapes."""
    sizes = [call.sizes for call in calls]
    shapes = [{n: value for n, value in call.numbers.items() if " dim " in n} for call in calls]
    if any(shape != shapes[0] for shape in shapes):
        return []
    return [name for name in sizes[0] if len({some[name] for some in sizes}) > 1] if sizes else []


def _equal_by_accident(calls: Sequence[CallFacts]) -> Iterator[str]:
    """Yield the sizes of the first call that vary later, and are as large as one that does not."""
    first = calls[0].numbers
    sizes = {name: value for name, value in first.items() if " dim " in name}
    varying = {n for n in sizes if any(call.numbers.get(n, sizes[n]) != sizes[n] for call in calls)}
    for name in sorted(varying):
        equal = sorted(n for n in sizes.keys() - varying if sizes[n] == sizes[name])
        if equal:
            yield f"in the first call, {name} and {equal[0]} are both {sizes[name]:g}"
            yield from indented(
                [
                    "only the first varies: equal sizes share a symbol, so what fixes one",
                    "fixes the other; give the example another size",
                ]
            )


def _not_marked(again: Iterable[str], calls: Sequence[CallFacts]) -> Iterator[str]:
    """Yield the dimensions that vary, and that the recipe does not mark."""
    found = dict.fromkeys(guard.groups() for line in again if (guard := _CONSTANT.search(line)))
    for name, dim in found:
        yield f"dimension {dim} of {name} varies, but dims of Example do not name it"
    if found:
        dims = _dims_that_vary(calls) or '0: {1: "batch"}, (1, "image"): {0: "batch"}'
        yield f"  name all that vary, as in dims={{{dims}}}"


def _dims_that_vary(calls: Sequence[CallFacts]) -> str:
    """Return what ``dims`` of an example would be with all dimensions that vary, as Python's code.

    A dimension has the name of the size on which it depends. What depends on none is left out.
    """
    dims: dict[str, list[str]] = {}
    for place in calls[0].numbers:
        if (parsed := _DIMENSION.fullmatch(place)) and (name := _size_of(place, calls)):
            keys = [one or f'"{two}"' for one, two in _KEY.findall(parsed["path"])]
            argument = keys[0] if len(keys) == 1 else f"({', '.join(keys)})"
            dims.setdefault(argument, []).append(f'{parsed["dim"]}: "{name}"')
    return ", ".join(f"{argument}: {{{', '.join(names)}}}" for argument, names in dims.items())


def _size_of(place: str, calls: Sequence[CallFacts]) -> str:
    """Return the name of the size on which a dimension depends; empty if it depends on none."""
    known = [call for call in calls if place in call.numbers]
    values = {call.numbers[place] for call in known}
    for name in calls[0].sizes if len(values) > 1 else ():
        pairs = {(call.sizes.get(name), call.numbers[place]) for call in known}
        if len(pairs) == len({size for size, _ in pairs}) == len(values):
            return name
    return ""


def _fixed(again: Iterable[str], at_most: int) -> Iterator[str]:
    """Yield the dimensions that the code itself fixes.

    Args:
        again: When and why code was compiled again.
        at_most: How often Dynamo compiles a dimension for one size before it is dynamic.
    """
    guards = [(line.partition(", call ")[0], _CONSTANT.search(line)) for line in again]
    found = Counter((code, *guard.groups()) for code, guard in guards if guard)
    fixed = [(name, dim) for (_, name, dim), count in found.items() if count > at_most]
    for name, dim in dict.fromkeys(fixed):
        yield f"dimension {dim} of {name} is compiled for one size each time: the code fixes it"
    if fixed:
        yield from indented(['TORCH_LOGS=dynamic names the line: look for "eval Eq(…)"'])


def _of_blocks(calls: Sequence[CallFacts]) -> Sequence[CallFacts]:
    """Return the calls with the numbers that the first block got, where these are known."""
    if not all(call.blocks for call in calls):
        return calls
    return [replace(call, numbers=call.blocks[0]) for call in calls]


def _guards_at_limit(capture: Capture) -> Iterator[str]:
    """Yield the guard that failed each time, for the code that was compiled most often."""
    compiled = Counter(item.code for item in capture.compilations if item.reason)
    most = max(compiled.values(), default=0)
    again = _history({code for code, count in compiled.items() if count == most}, capture)
    return _with_code(again, again)


def _history(codes: Container[Place], capture: Capture) -> dict[str, str]:
    """Return when and why code was compiled again, each with the line that its guard is for."""
    return {
        f"{item.code}, call {item.call + 1}: {item.guard}": item.guarded or _choice(item)
        for item in capture.compilations
        if item.code in codes and item.reason
    }


def _choice(item: Compilation) -> str:
    """Return where Inductor chose code by a size, and thus set the guard that failed."""
    if lines := " and ".join(_OF_INDUCTOR.findall(item.reason)):
        return f"Inductor compiles other code for other sizes: {lines}"
    if _OF_A_CACHE.search(item.reason):
        return "PyTorch's cache has this guard without its line: --cold names it"
    return ""


def _with_code(lines: Iterable[str], again: Mapping[str, str]) -> Iterator[str]:
    """Yield lines, and below each the line of code that its guard is for."""
    for line in lines:
        yield line
        yield from indented(filter(None, [again.get(line)]))


@pytest.mark.aspect("recompiles")
def test_recompiles_only_as_its_setting_allows(judge: Judge) -> None:
    judge(rule)
