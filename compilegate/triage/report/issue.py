"""``report.md``: the text of an issue, and for the team the workarounds that were tried."""

from __future__ import annotations

import re
from collections.abc import Iterator

from compilegate.culprits.grouping import folded
from compilegate.culprits.known import WORKAROUND
from compilegate.judging.aspects import aspect_named
from compilegate.output.addresses import ADDRESS
from compilegate.output.visible import visible
from compilegate.records.environment import Environment
from compilegate.records.observation import Observation
from compilegate.records.variables import HIDDEN
from compilegate.triage.findings import Findings
from compilegate.triage.report import (
    bisection_text,
    cost_tables,
    inductor_line,
    line_text,
    ownership,
    stage_text,
)
from compilegate.triage.report.candidates import candidates
from compilegate.triage.report.cleaning import cleaned, cleaned_code, secrets_in
from compilegate.triage.report.dumps import decisive
from compilegate.triage.report.title import title_of
from compilegate.triage.scripts.script import Script
from compilegate.triage.search import smallest
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.place import Place
from compilegate.triage.search.suspect import Suspect

#: The file that has all that a report shows a part of, where the case ended early.
CASE_LOG = "case.log"
#: The longest script that a report contains, in lines.
_LONGEST = 150
#: How many lines that call an operator are named.
_LINES = 3
#: What the words of compilegate mean that a report may contain.
_WORDS = {
    "probing call": "a call that compilegate makes after those of the model; its name says what is "
    "special about its inputs",
    "allowed": "the limit of the suite, ",
    "reference": "the same model in float64, or in float32 if it does not run in float64",
    "not budgeted": "no budget expects it",
}
#: The same of *allowed*: of numbers, of a cost, and of a count.
_OF_ERROR = "from eager's own error against float64"
_OF_COST = "from a threshold or a budget"
_OF_COUNT = "from what the setting needs, or from a budget"
#: Stands for the script until the rest of the report is clean.
_SCRIPT = "<the script>"


def text(
    suspect: Suspect, findings: Findings, environment: Environment, command: str, script: str
) -> str:
    """Return the report.

    Args:
        suspect: The case that stands for the culprit.
        findings: What was found.
        environment: The environment of the run.
        command: The command that observes the case.
        script: The script; empty if there is none.
    """
    lines = [f"# {title_of(suspect, findings)}", ""]
    for heading, part in (
        ("What is wrong", _what(suspect)),
        ("Where", _where(suspect, findings)),
        ("Where the time goes", cost_tables.kernels(findings.kernels)),
        ("What memory holds", cost_tables.held(findings.held)),
        ("Where compile time goes", _compiling(suspect)),
        ("Other failures of this cause", (f"- {line}" for line in findings.also)),
        ("Reproduce", _reproduce(findings, command, script)),
        ("Bisection", bisection_text.lines(findings)),
        ("Versions", _versions(environment)),
        ("Links", _links(suspect, findings)),
        ("For the team: workarounds that were tried", _workarounds(suspect, findings)),
        ("What this report lacks", (f"- {note}" for note in findings.notes)),
    ):
        content = [*part]
        if content:
            lines += [f"## {heading}", "", *content, ""]
    shown = cleaned("\n".join(visible(line) for line in lines), secrets_of(findings))
    return shown.replace(_SCRIPT, "\n".join(map(visible, cleaned_code(script).splitlines())))


def secrets_of(findings: Findings) -> frozenset[str]:
    """Return the secrets that code had which the script has without them."""
    return secrets_in(findings.script.text) if findings.script is not None else frozenset()


def last_words(observation: Observation) -> str:
    """Return the traceback of a case that ended early, or its last output; empty for another."""
    failure = observation.failure
    return failure.traceback or failure.output if failure is not None else ""


def _what(suspect: Suspect) -> Iterator[str]:
    culprit, observation = suspect.culprit, suspect.observation
    yield f"In {len(culprit.cases)} case{'s' * (len(culprit.cases) != 1)}: {folded(culprit.cases)}."
    yield f"Aspects: {', '.join(culprit.aspects)}. First in `{observation.case}`:"
    yield ""
    yield "```text"
    first, *others = suspect.shown
    yield f"{suspect.verdict.aspect}: {first}"
    if observation.failure is not None:
        yield from decisive(last_words(observation), CASE_LOG)
    else:
        for line in [line for line in others if line != first][:20]:
            yield from line.splitlines()[:30]
    yield "```"
    said = "\n".join(suspect.shown)
    meant = _WORDS | {"allowed": f"{_WORDS['allowed']}{_allowed(suspect.verdict.aspect)}"}
    words = [f"*{word}*: {what}." for word, what in meant.items() if word in said]
    if words:
        yield from ("", " ".join(words))


def _allowed(aspect: str) -> str:
    """Return what the suite of an aspect accepts."""
    found = aspect_named(aspect)
    if found.tensors or found.practice:
        return _OF_ERROR
    return _OF_COST if found.group == "cost" else _OF_COUNT


def _where(suspect: Suspect, findings: Findings) -> Iterator[str]:
    yield from stage_text.paragraphs(suspect, findings.stage)
    yield from _place(suspect, findings)


def _place(suspect: Suspect, findings: Findings) -> Iterator[str]:
    """Yield the line, the submodule and the operator, as far as they are known."""
    place = findings.place
    if findings.guilty is not None:
        yield from ownership.paragraph(findings.guilty)
    yield from _named_line(suspect, findings)
    if place.path:
        yield f"**Submodule:** `{place.path}` (`{place.kind}`) fails when compiled alone with"
        yield f"eager's inputs: {place.text}"
        if any(tried.endswith(f" on {place.path}") for tried in findings.helpless):
            yield ""
            yield f"With `{place.path}` left to eager, the case still fails: other parts fail, too."
        yield ""
    elif place.failing:
        failing = folded([f"`{path}`" for path in place.failing])
        fail, them = "fails", "it"
        if len(place.failing) > 1:
            fail, them = "fail", "one of them"
        yield f"**Submodule:** no single one: {failing} {fail} when compiled alone, and the case"
        yield f"still fails with {them} left to eager."
        yield ""
    elif place.tried:
        tried = folded([f"`{path}`" for path in place.tried])
        late = "" if place.is_complete else " There was no time for the others."
        none = f"none of {tried} fails" if len(place.tried) > 1 else f"{tried} does not fail"
        yield f"**Submodule:** {none} when compiled alone.{late}"
        yield from (*findings.elsewhere, "")
    yield from _unguarded(suspect, findings.stage)
    if line := findings.raises_at:
        how = "the compiler raises at"
        if findings.is_traced:
            how = "the code that raises, or its forward, is called at"
        yield from (f"**Line:** {how} `{line}`.", "")
    yield from inductor_line.paragraph(suspect, findings)
    if findings.line is not None:
        yield from line_text.paragraph(findings.line, findings.stage.backend)
    yield from smallest.paragraph(findings.smallest)
    if place.is_dissected and place.without:
        yield from _without(place)
        yield from (*findings.elsewhere, "") if place.path and findings.elsewhere else ()
    if place.identities:
        yield f"It still fails with `nn.Identity` in place of {', '.join(place.identities)}."
        yield ""
    yield from _operator(findings)


def _named_line(suspect: Suspect, findings: Findings) -> Iterator[str]:
    """Yield the line that breaks the graph, or that a guard is for."""
    if line := suspect.evidence.source:
        code = f": `{findings.code}`" if findings.code else ""
        yield from (f"**Line:** `{line}`{code}", "")
    if frame := suspect.evidence.frame:
        yield f"**Line:** PyTorch names no line for this guard. It recompiles `{frame}`."
        yield ""


def _unguarded(suspect: Suspect, stage: Stage) -> Iterator[str]:
    """Yield that Dynamo compiled nothing for the first wrong call, if it is a later one."""
    number, capture = suspect.shown_in, suspect.observation.capture
    is_of_dynamo = stage.backend == "eager" and suspect.is_of_values
    if not is_of_dynamo or not number or capture is None:
        return
    if all(one.call != number for one in capture.compilations):
        yield f"Nothing is compiled for call {number + 1}, the first wrong one: it runs code of an"
        yield "earlier call. A guard may be missing."
        yield ""


def _operator(findings: Findings) -> Iterator[str]:
    """Yield the operator, or those that fail together, and the lines that call them."""
    if findings.together:
        names = dict.fromkeys(f"`{each.operator}`" for each in findings.together)
        lines = dict.fromkeys(each.source for each in findings.together if each.source)
        yield f"**Operators:** {', '.join(names)} fail together, compiled as one graph."
        yield from (f"One is called at `{line}`." for line in lines)
        if findings.cpp is None and (name := findings.bisected_operator):
            yield f"The bisection names the decomposition or lowering of `{name}`."
        yield ""
    if not findings.operator or (findings.together and findings.cpp is None):
        return
    yield f"**Operator:** `{findings.operator}` {_why(findings)}"
    yield from (f"It is called at `{line}`." for line in findings.sources[:_LINES])
    if (more := len(findings.sources) - _LINES) > 0:
        yield f"{more} other lines call it, too."
    yield ""


def _why(findings: Findings) -> str:
    """Return what shows that an operator is at fault, as the rest of a sentence."""
    if findings.place.operator:
        return "fails alone, compiled as its own graph."
    if findings.cpp is not None:
        return f"generates the line of C++ that does not compile: `{findings.cpp.line}`."
    if findings.needs_fusion:
        return "is right when nothing is fused with it; the bisection names its lowering."
    return "has the decomposition or lowering that the bisection names."


def _without(place: Place) -> Iterator[str]:
    """Yield what a place shows none of whose submodules fails alone."""
    # Of the whole model, the line above says so.
    alone = f"None of the submodules of `{place.path}` fails alone. " if place.path else ""
    if place.needed:
        names = ", ".join(f"`{path}`" for path in place.needed)
        yield f"{alone}It fails when all of it is compiled into one graph,"
        yield f"and passes when one of these is left to eager: {names}."
        # One that an identity may replace only breaks the graph there.
        inert = [f"`{path}`" for path in place.needed if path in place.identities]
        if inert:
            who = "They compute" if len(inert) == len(place.needed) else f"{inert[0]} computes"
            yield f"That breaks the graph. {who} nothing that is wrong."
    elif all(seen.state == "bad" for seen in place.without.values()):
        yield f"{alone}It still fails with each submodule left to eager:"
        kind = place.kind or place.model
        whose = f"`{kind}`" if kind else "the model"
        yield f"the fault is in the code of the `forward` of {whose} itself."
    yield ""


def _compiling(suspect: Suspect) -> Iterator[str]:
    if suspect.cost == "compiling":
        yield from cost_tables.compiling(suspect.observation)


def _reproduce(findings: Findings, command: str, script: str) -> Iterator[str]:
    verified = findings.verified
    if script and verified is not None and findings.script is not None:
        green = f"; `python repro.py {verified.below}`, without the stage: {verified.green}"
        end = green if verified.green else ""
        yield f"`python repro.py`, made from {findings.script.origin}: {verified.red}{end}."
        if not verified.holds:
            yield ""
            why = "without the stage it fails, too"
            if not verified.red.shows:
                why = "it does not show the failure"
            elif verified.says not in verified.red.output:
                why = f"it fails, but does not show *{verified.says}*"
            yield f"**The script is not verified**: {why}."
        yield from _about(findings.script)
    elif findings.stage.is_confirmed:
        yield "No script shows the failure with torch alone. The command below shows it with"
        yield "compilegate. If the model is in your zoo file, send that file, too."
    if verified is None or not verified.holds:
        for line in dict.fromkeys(findings.tried_scripts):
            yield f"- tried: {line}"
    yield ""
    lines = script.rstrip().splitlines()
    if script and len(lines) <= _LONGEST:
        yield from ("```python", _SCRIPT, "```", "")
    elif script:
        yield f"It has {len(lines)} lines: see `repro.py`."
    if verified is not None and verified.red.output:
        yield from _printed(verified.red.output)
    yield "With compilegate, which compares compiled models with eager (a *case* is a model under a"
    yield from ("setting):", "", f"    {command}")


def _about(script: Script) -> Iterator[str]:
    """Yield what a reader should know of a script."""
    if script.needs:
        yield from ("", f"{script.needs}. Triage ran it with this path and no other path of yours.")
    if secrets_in(script.text):
        yield ""
        yield f"Strings that look like secrets read *{HIDDEN}*. Triage ran the script in this form."
    if script.is_exact:
        yield from ("", "The script computes in float32, where the failure shows, too.")


def _printed(output: str) -> Iterator[str]:
    yield from ("It prints:", "", "```text", *decisive(output, "repro.log"), "```", "")
    if re.search(r"\bgrad\[\d", output):
        yield from ("*grad[0]*: the gradient of the first input that has one.", "")


def _versions(environment: Environment) -> Iterator[str]:
    yield ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    devices = ", ".join(device.name for device in environment.devices)
    yield f"Python {environment.python}, {environment.platform}, {environment.compiler}, {devices};"
    yield "`environment.txt` has more."


def _links(suspect: Suspect, findings: Findings) -> Iterator[str]:
    for name in suspect.culprit.known:
        yield f"- {_issue_and_note(name)[0]}"
    for issue, what, model in candidates(suspect, findings) if findings.guilty is None else ():
        yield f"- may be {issue}: {what.partition(' (http')[0]}."
        yield f"  In the zoo, `{model}` fails at the same stage with the same operator."


def _issue_and_note(name: str) -> tuple[str, str]:
    """Return where something is reported, and what the team says of it."""
    found = ADDRESS.match(name)
    if found is None:
        issue, _, helps = name.partition(WORKAROUND)
        return issue, helps and WORKAROUND.strip("; ") + f" {helps}"
    return found[0], name[found.end() :].strip("; ")


def _workarounds(suspect: Suspect, findings: Findings) -> Iterator[str]:
    for name in suspect.culprit.known:
        issue, note = _issue_and_note(name)
        if note:
            yield from (f"Known as {issue}: {note}.", "")
    for code, how in findings.workarounds:
        yield from ("```python", *code.splitlines(), "```", f"Tried: {how}.", "")
    if findings.helpless:
        yield f"Tried without success: {', '.join(f'`{code}`' for code in findings.helpless)}."
