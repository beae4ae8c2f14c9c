"""The evidence of a failed verdict: what tells its cause from others.

Two verdicts with the same key have one cause, as far as an observation shows. A key never holds a
measured number, nor the name of a setting, since one cause shows in many cases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from compilegate.culprits import stacks
from compilegate.judging import raising
from compilegate.judging.aspects import aspect_named
from compilegate.judging.completeness import ended_in_practice, nothing_compiled, was_observed
from compilegate.records.case import Case, computes_in_half, model_of
from compilegate.records.observation import Compilation, GraphBreak, Observation
from compilegate.records.recompilations import beyond_sizes
from compilegate.records.verdict import Verdict
from compilegate.zoo import registry

Key = tuple[str, ...]
#: The first word of the key of a case of which nothing was compiled, for no line of code.
NOT_COMPILED = "nothing compiled"
#: The second word of the key of a wrong tensor that no probing call alone shows.
AT_ONCE, LATER = "from the first call on", "in later calls"

#: The buffers of the batch norms in ``torch.nn``: they name the module in each model.
_BATCH_NORM = ("running_mean", "running_var", "num_batches_tracked")
#: What differs in numbers; a wrong output also makes gradients, buffers and steps wrong in these.
NUMBERS = ("values", "nonfinite", "elements")
#: How each complaint about numbers that are finite reads.
_INEXACT = "root mean square|largest error|one element|column|scale|rows are"
#: What has a meaning in a regular expression.
_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")

_CALL = re.compile(r"(?P<call>(?P<probe>probing )?call(?: (?P<number>\d+))?[^:]*): (?P<rest>.*)")
_TENSOR = re.compile(r"(?P<where>[^:]*?)(?: \(\w+\))?: (?P<rest>.*)")
_EXACT = re.compile(r"(?P<what>\w+) differs?(?: by padding)?: ")
_VARIABLE = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?")
#: How many characters of a message tell it from others.
_SAID = 80
#: The shortest message of an exception that tells its cause in another model, too.
_TELLING = 24
#: A text that a guard compares with: each call may have another.
_TEXT = re.compile(r"== '[^']*'")
#: Dynamo's name of what is left of a function after a break, and of a value that the line had made.
_RESUMED = re.compile(r"torch_dynamo_resume_in_.+_at_(?P<line>\d+)")
_LEFT = "___stack"
#: How PyTorch's own files begin.
_TORCH = "torch/"
_FOLDER = re.compile(r"(?:/[^\s/:'\"]+)+/")


@dataclass(frozen=True)
class Evidence:
    """What a failed verdict shows of its cause.

    Attributes:
        key: Equal where the cause is the same.
        text: One line that shows it in one case.
        aspect: The aspect; empty where the whole case failed.
        is_of_numbers: Whether numbers are wrong, which a wrong number before them may explain.
        is_uncompiled: Whether nothing was compiled, rather than that something differs.
        line: Of a break or a guard: what a line of the verdict contains of it.
        source: File and line of the user's code that shows it; empty where that is not known.
        code: Of a guard: the line of code that it is for, with its place.
        frame: Of a guard for which PyTorch names no line: the function that is compiled again, and
            its file.
        match: A regular expression that lines match which show the same; empty for any.
        is_specific: Whether what matches has this cause in whichever case: it names a place.
        is_probing: Whether a tensor is wrong in a probing call, and in no call before it.
    """

    key: Key
    text: str
    aspect: str = ""
    is_of_numbers: bool = False
    is_uncompiled: bool = False
    line: str = ""
    source: str = ""
    code: str = ""
    frame: str = ""
    match: str = ""
    is_specific: bool = False
    is_probing: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that show it alone, where a verdict has several pieces of evidence."""
        return tuple(filter(None, (self.text, self.line, self.code)))


def evidence(observation: Observation, verdict: Verdict) -> list[Evidence]:
    """Return the evidence of a verdict: several where it names several breaks or guards.

    Args:
        observation: The case.
        verdict: A verdict on it that failed, whether that was expected or not.
    """
    if has_stopped_failing(verdict):
        reason = verdict.summary.partition(". Remove the entry")[0]
        return [Evidence(("stopped failing", reason), verdict.summary, verdict.aspect)]
    is_of_change = aspect_named(verdict.aspect).change == "itself"
    if (failure := observation.failure) is not None:
        said = failure.message.partition("\n")[0][:_SAID]
        is_said = said in verdict.summary  # also by an aspect of a change, which had no other say
        if is_said or not (is_of_change or was_observed(observation, verdict.aspect)):
            match = _pattern(said) if is_said else ""
            is_own = observation.status == "raised" and len(_VARIABLE.sub("", said)) >= _TELLING
            key = _key_of_failure(observation)
            of = failure.stage if ended_in_practice(observation) else ""
            return [Evidence(key, verdict.summary, of, match=match, is_specific=is_said and is_own)]
    mistake = raising.unexpected(observation)
    if mistake is not None and verdict.summary == mistake.summary:
        said = mistake.summary.partition(": ")[2]
        key = "eager raises", model_of(observation.case), normal(said)
        return [Evidence(key, mistake.summary, match=_pattern(said))]
    _, is_eager, why = verdict.summary.partition("nothing was compiled, all of it ran eagerly")
    if is_eager and not is_of_change and nothing_compiled(observation):
        reasons = [replace(piece, text=verdict.summary) for piece in _breaks(observation, verdict)]
        found = reasons or [Evidence((NOT_COMPILED, normal(why)), verdict.summary)]
        return [replace(piece, aspect="", is_uncompiled=True) for piece in found]
    return [*_found(observation, verdict)] or [_otherwise(observation, verdict)]


def has_stopped_failing(verdict: Verdict) -> bool:
    """Whether a verdict failed because the failure that a budget expects is gone."""
    return verdict.summary.startswith("expected to fail, but passed: ")


def _found(observation: Observation, verdict: Verdict) -> Iterator[Evidence]:
    match verdict.aspect:
        case "graph_breaks":
            yield from _breaks(observation, verdict)
        case "recompiles":
            yield from _guards(observation, verdict)
        case "cuda_graphs":
            key = "cuda graphs", normal(verdict.summary)
            yield Evidence(key, verdict.summary, verdict.aspect)
        case _ if aspect_named(verdict.aspect).practice is not None:
            yield from _steps(observation, verdict)
        case _ if aspect_named(verdict.aspect).tensors:
            yield from _tensors(observation, verdict)


def _otherwise(observation: Observation, verdict: Verdict) -> Evidence:
    """Return the evidence of what names no place: costs, statistics, changes between versions."""
    text = "" if aspect_named(verdict.aspect).group == "cost" else _gist(verdict.summary)
    key, said = (verdict.aspect, family_of(observation.case), text), verdict.summary
    return Evidence(key, said, verdict.aspect, is_of_numbers="slope along the gradient" in said)


def _breaks(observation: Observation, verdict: Verdict) -> Iterator[Evidence]:
    capture = observation.capture
    known = {str(b): b for b in (*capture.breaks, *capture.fallbacks)} if capture else {}
    for line in _lines(verdict):
        if found := known.get(line):
            yield Evidence(
                _key_of_break(found, observation.case),
                f"graph break: {line}",
                verdict.aspect,
                line=line,
                source=found.source,
                match=_pattern(line),
                is_specific=bool(found.source) and not found.source.startswith(_TORCH),
            )


def _key_of_break(found: GraphBreak, case_id: str) -> Key:
    """Return the key of a break: its line, whatever Dynamo cannot trace there.

    A line of torch calls the code of many models, so there the reason counts, too.
    """
    if found.source and not found.source.startswith(_TORCH):
        return "graph break", found.source
    place = found.source or family_of(case_id)
    return "graph break", normal(found.reason), normal(found.cause), place


def _guards(observation: Observation, verdict: Verdict) -> Iterator[Evidence]:
    """Yield each guard that failed, with the code that it guards."""
    capture = observation.capture
    seen: set[Key] = set()
    made = capture.compilations if capture else ()
    needs_sizes = Case.parse(observation.case).dynamic in ("static", "auto")
    for item in beyond_sizes(made) if needs_sizes else made:
        # Runs of earlier versions end the line with PyTorch's comment.
        line = f"{item.code}, call {item.call + 1}: {item.guard}"
        if not item.guard or not any(text.strip().startswith(line) for text in verdict.details):
            continue
        reason = _TEXT.sub("== ''", normal(item.guard))
        key: Key = "guard", f"{item.code.file} {item.code.function}", reason
        is_known = bool(item.guarded_at) and not item.guarded_at.startswith(_TORCH)
        if is_known:  # one line reads it, in whichever frame
            key = "guard", item.guarded_at, _variable_in(item.guard)
        if key not in seen:
            seen.add(key)
            broken_at = _left_by(item)
            source = broken_at or (item.guarded_at if is_known else "")
            yield Evidence(
                ("graph break", broken_at) if broken_at else key,
                f"recompiled: {item.guarded_at if is_known else item.code}: {item.guard}",
                verdict.aspect,
                line=item.guard,
                source=source,
                code=item.guarded if is_known else "",
                frame="" if source else f"{item.code.function} of {item.code.file}",
                match=_pattern(item.guarded)
                if is_known
                else f"{_pattern(str(item.code))}.*: {_pattern(item.guard)}",
                is_specific=item.code.owner == "model",
            )


def _variable_in(guard: str) -> str:
    """Return the name of the attribute or variable that a guard compares."""
    left = re.split(r" (?:==|!=|is\b|in\b|not in\b|<|>)|,", guard, maxsplit=1)[0]
    names: list[str] = re.findall(r"[A-Za-z_]\w*", left)
    return names[-1] if names else normal(guard)


def _left_by(item: Compilation) -> str:
    """Return the line that broke the graph and left a value which the guard tests; else empty."""
    resumed = _RESUMED.fullmatch(item.code.function)
    if resumed is None or _LEFT not in item.guard or item.code.file.startswith(_TORCH):
        return ""
    return f"{item.code.file}:{resumed['line']}"


def _tensors(observation: Observation, verdict: Verdict) -> Iterator[Evidence]:
    """Yield what the first complaint says of a tensor: which kind, in what, in which calls."""
    call = _CALL.match(verdict.details[0] if verdict.details else verdict.summary)
    if call is None:
        return
    # Noise of half precision may hide it in the first call.
    at_once = call["number"] == "1" or computes_in_half(observation.case)
    when = call["call"].rpartition(", ")[2] if call["probe"] else AT_ONCE if at_once else LATER
    found = _of_tensor(observation, verdict, call["rest"], (verdict.aspect, when))
    in_numbers = any(what in NUMBERS for *_, what in complaints(verdict))
    is_of_numbers = found.is_of_numbers or (verdict.aspect == "forward" and in_numbers)
    yield replace(found, is_probing=bool(call["probe"]), is_of_numbers=is_of_numbers)


def complaints(verdict: Verdict) -> set[tuple[str, str, str]]:
    """Return all that a verdict says of tensors: the aspect, the kind of tensor, what is wrong."""
    found = filter(None, map(_CALL.match, verdict.details or (verdict.summary,)))
    return {(verdict.aspect, *_kind_and_what(one["rest"])) for one in found}


def _kind_and_what(line: str) -> tuple[str, str]:
    """Return the kind of tensor, and what is wrong: *values*, or what differs exactly."""
    tensor = _TENSOR.match(line)
    where, rest = (tensor["where"], tensor["rest"]) if tensor else ("", line)
    exact = _EXACT.match(rest)
    what = exact["what"] if exact else _gist(line) if "raises" in line[:13] else "values"
    return where.split(" ")[0].partition("[")[0].partition(".")[0], what


def _steps(observation: Observation, verdict: Verdict) -> Iterator[Evidence]:
    """Yield what the first complaint says of a step of a practice: the step is the place."""
    lines = [*_lines(verdict)]
    practice = observation.practices.get(aspect_named(verdict.aspect).practice or "metric")
    names = [step.name for step in practice.steps] if practice else []
    line = lines[0] if lines else verdict.summary
    step = max((n for n in names if line.startswith(f"{n}: ")), key=len, default="")
    if not step:
        return
    rest = line.removeprefix(f"{step}: ")
    if rest.startswith(("raised ", "compiled again ")) or "compilations, " in rest:
        key = "step", verdict.aspect, normal(step), normal(rest)
        yield Evidence(key, verdict.summary, verdict.aspect)
    else:
        yield _of_tensor(observation, verdict, rest, ("step", verdict.aspect, normal(step)))


def _of_tensor(observation: Observation, verdict: Verdict, line: str, place: Key) -> Evidence:
    tensor = _TENSOR.match(line)
    where, rest = (tensor["where"], tensor["rest"]) if tensor else ("", line)
    exact, (kind, what) = _EXACT.match(rest), _kind_and_what(line)
    leaf = where.rpartition(".")[2]
    said = leaf if leaf in _BATCH_NORM else kind
    if leaf in _BATCH_NORM:
        kind, shared = leaf, "torch.nn batch norm"
    elif place[0] == "step" and exact and what not in NUMBERS:
        kind, shared = f"{kind} {_gist(rest)}", ""  # the step alone names what is wrong
    else:
        shared = family_of(observation.case)
    named = f"{_pattern(where)}: " if verdict.aspect == "side_effects" else ""
    match = f"{named}{what} differ" if exact else ""
    if not exact and re.search(_INEXACT, line):
        match = rf"\b{said}\b.*(?:{_INEXACT})" if said.isidentifier() else _INEXACT
    return Evidence(
        (*place, kind, what, shared),
        verdict.summary,
        verdict.aspect,
        # A generator that is left in another state has drawn other numbers.
        is_of_numbers=what in NUMBERS or where == "random generator",
        match=match,
    )


def _key_of_failure(observation: Observation) -> Key:
    failure = observation.failure
    assert failure is not None
    if observation.status == "out_of_memory":
        return "out of memory", family_of(observation.case)
    place = stacks.innermost(failure)
    message = normal(failure.message)
    if not place and observation.status in ("crashed", "timed_out"):
        # The signal alone says nothing of the cause.
        place = f"{failure.stage} of {family_of(observation.case)}"
    if observation.status == "timed_out":
        message = ""  # it says for how long
    return observation.status, failure.kind, message, place


def _lines(verdict: Verdict) -> Iterator[str]:
    return (line for line in verdict.details if not line.startswith(("  ", "… and")))


def normal(text: str) -> str:
    """Return a text without what differs from case to case: numbers, addresses, folders."""
    return _VARIABLE.sub("#", _FOLDER.sub("/", text))


def _pattern(line: str) -> str:
    """Return a regular expression that a line matches, whatever numbers and folders it has."""
    parts = re.split(r"[#/]+", normal(line))
    return ".*".join(_SPECIAL.sub(r"\\\g<0>", part) for part in parts)


def _gist(text: str) -> str:
    """Return the first clause of a text, normalised."""
    return normal(text.partition(";")[0])


def family_of(case_id: str) -> str:
    """Return the family of a shipped model. Another model stands for itself alone."""
    name = model_of(case_id)
    known = registry.load().get(name)
    is_known_bug = known is not None and re.match(r"gh\d+_|unreported_|hazards_", name)
    return name if known is None or known.build is None or is_known_bug else known.family
