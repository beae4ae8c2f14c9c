"""Workarounds: code that makes the case pass, each tried before a report names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from compilegate.records.case import torch_mode
from compilegate.triage.findings import Findings
from compilegate.triage.search import ladder
from compilegate.triage.search.place import Place
from compilegate.triage.search.sightings import OTHERS_LEFT
from compilegate.triage.search.suspect import is_of_cpp
from compilegate.triage.search.trials import NOTHING_LEFT, Trials, part
from compilegate.triage.steps.remedies import remedies

#: What a report lacks if the case fails with options that make its script pass.
ANOTHER = (
    "with what makes repro.py pass, the case still fails: it has another, perhaps larger fault"
)
#: Options with which Inductor generates C++ without vectors.
_SCALAR = {"cpp.simdlen": 1}
#: The stances that are tried, and how they are taken.
_STANCES = {
    "eager_on_recompile": "model(*inputs)  # compiles for the first inputs\n"
    'torch.compiler.set_stance("eager_on_recompile")',
    "force_eager": 'torch.compiler.set_stance("force_eager")  # compiles nothing',
}


def find(trials: Trials, findings: Findings, say: Callable[[str], None]) -> None:
    """Try options, a mode, a backend, eager for the submodule, documented remedies, and stances.

    Args:
        trials: Observes the case with each of them.
        findings: The stage and the place. They receive what helps.
        say: Is given a line for each thing that is tried.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    _try_options(trials, findings, say)
    below = findings.stage.below
    if mode := findings.stage.cure:
        code = f"torch.compile(model, {ladder.option(mode)})"
        findings.workarounds.append((code, "the case passes in this mode"))
    if below != ladder.OFF:
        how = "the case passes with this backend"
        findings.workarounds.append((f'torch.compile(model, backend="{below}")', how))
    if path := findings.place.path:
        _try_disabling(trials, findings, _ways(findings.place), say)
        if findings.stage.left_out and _disabled(path) in findings.helpless:
            findings.place.widen()  # each part that CUDA graphs record may fail alone
    elif needed := findings.place.needed:
        _try_disabling(trials, findings, [(_disabling(path), [path]) for path in needed], say)
    _try_remedies(trials, findings, say)
    _try_stances(trials, findings, say)


def _try_options(trials: Trials, findings: Findings, say: Callable[[str], None]) -> None:
    """Try on the case what made the script pass: the case may have another fault."""
    if is_of_cpp(trials.suspect) and "helps" not in findings.bisected:
        code = f"torch.compile(model, options={_written(_SCALAR, trials.suspect.case.mode)})"
        seen = trials.of_part(part(config={f"inductor.{name}": n for name, n in _SCALAR.items()}))
        say(f"  {_SCALAR}: {seen.outcome}")
        if seen.state == "good":
            findings.workarounds.append((code, "the case compiles without vectorisation"))
        elif seen.state == "bad":
            findings.helpless.append(code)
    for options in findings.bisected.get("helps", ()):
        code = f"torch.compile(model, options={_written(options, trials.suspect.case.mode)})"
        findings.workarounds.append((code, "repro.py passes with these options of Inductor"))
        config = {f"inductor.{name}": value for name, value in options.items()}
        seen = trials.of_part(part(config=config))
        say(f"  {options}: {seen.outcome}")
        if seen.state == "good":
            findings.workarounds[-1] = code, "the case passes"
        elif seen.state == "bad":
            findings.workarounds[-1] = code, "repro.py passes, and the case fails"
            if ANOTHER not in findings.notes:
                findings.notes.append(ANOTHER)


def _written(options: Mapping[str, object], mode: str) -> str:
    """Return options as code, with those of a mode: torch.compile takes only one of the two."""
    if mode == "default":
        return repr(options)
    return f'{{**torch._inductor.list_mode_options("{torch_mode(mode)}"), **{options!r}}}'


def _try_remedies(trials: Trials, findings: Findings, say: Callable[[str], None]) -> None:
    """Try what PyTorch documents for a break or a guard of this kind."""
    suspect = trials.suspect
    for remedy in remedies(suspect):
        if remedy.dynamic:
            case = replace(suspect.case, dynamic=remedy.dynamic)
            seen = trials.of_case(case, suspect.observation.backend)
        else:
            trial = part(config=dict(remedy.config), disabled_at=remedy.disabled_at)
            seen = trials.of_part(trial)
        say(f"  {remedy.code.splitlines()[-1]}: {seen.outcome}")
        if seen.state == "good":
            how = OTHERS_LEFT if seen.text == OTHERS_LEFT else "the case passes"
            findings.workarounds.append((remedy.code, how))
        elif seen.state == "bad":
            findings.helpless.append(remedy.code.splitlines()[-1])


def _ways(found: Place) -> Iterator[tuple[str, list[str]]]:
    """Yield code that leaves the submodule to eager, then all of its class; and which these are."""
    yield _disabling(found.path), [found.path]
    if found.alike != [found.path]:
        every = f'for part in model.modules():\n    if type(part).__name__ == "{found.kind}":\n'
        yield f"{every}        part.forward = torch.compiler.disable(part.forward)", found.alike


def _disabled(*paths: str) -> str:
    """Return how a report names submodules that were left to eager."""
    return f"torch.compiler.disable on {', '.join(paths)}"


def _disabling(path: str) -> str:
    """Return code that leaves a submodule to eager."""
    one = f'part = model.get_submodule("{path}")\n'
    return f"{one}part.forward = torch.compiler.disable(part.forward)"


def _try_disabling(
    trials: Trials,
    findings: Findings,
    ways: Iterable[tuple[str, list[str]]],
    say: Callable[[str], None],
) -> None:
    """Leave submodules to eager, in one way after the other, until the case passes.

    Args:
        trials: Observes the case with each of them.
        findings: They receive what helps.
        ways: Code, and the submodules that it leaves to eager.
        say: Is given a line for each thing that is tried.
    """
    for code, paths in ways:
        seen = trials.of_part(part(disabled=tuple(paths)))
        tried = _disabled(*paths)
        if seen.text == NOTHING_LEFT:  # nor would more be with all of the class
            findings.notes.append(f"no workaround by {tried}: {NOTHING_LEFT}")
            say(f"  {tried}: {NOTHING_LEFT}")
            return
        say(f"  {tried}: {seen.outcome}")
        if seen.state == "good":
            findings.workarounds.append((code, "the case passes"))
            return
        if seen.state == "bad":
            findings.helpless.append(tried)


def _try_stances(trials: Trials, findings: Findings, say: Callable[[str], None]) -> None:
    """Keep what is compiled and leave the rest to eager, if that may help; or leave all."""
    suspect = trials.suspect
    for stance, code in () if suspect.was_not_compiled else _STANCES.items():
        if stance == "eager_on_recompile" and suspect.is_of_first_call:
            continue
        seen = trials.of_part(part(stance=stance))
        say(f"  stance {stance}: {seen.outcome}")
        if seen.state == "good":
            findings.workarounds.append((code, "the case passes"))
        elif seen.state == "bad":
            findings.helpless.append(f'torch.compiler.set_stance("{stance}")')
