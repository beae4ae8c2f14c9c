"""Remedies that PyTorch documents for a kind of break or guard: triage tries those that fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compilegate.triage.search.suspect import Suspect

#: An option that PyTorch names in a hint, with its value.
_OPTION = re.compile(r"torch\._dynamo\.config\.(\w+)\s*=\s*(True|False)\b")
#: What Dynamo calls a function that it cannot trace.
_CALLED = re.compile(r"builtin (?:operator )?`([\w.]+)`")
#: Functions that log, by Dynamo's names for them.
_LOGGING = {"print": "builtins.print", "_warnings.warn": "warnings.warn"}
_LOGGER = tuple(f"logging.Logger.{name}" for name in ("debug", "info", "warning", "error"))
#: How guards read: on a size, on a number, on a parameter.
_SIZE = re.compile(r"size mismatch at index|\.size\(\)|\.shape\b")
_NUMBER = re.compile(r"== -?\d+$")
_PARAMETER = re.compile(r"_parameters\[")
#: What a user writes for each dynamic setting.
_SETTINGS = {
    "auto": "torch.compile(model)  # dynamic=None, the default",
    "marked": "torch._dynamo.mark_dynamic(input, dim)  # before the first call",
    "dynamic": "torch.compile(model, dynamic=True)",
}


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """A change that may make a case pass.

    Attributes:
        code: What a user writes.
        config: Options of the compiler, by the names that ``Example.config`` has. A set of
            functions is a list of their names.
        dynamic: The dynamic setting; empty for that of the case.
        disabled_at: File and line of the function that is left to eager; empty for none.
    """

    code: str
    config: Mapping[str, Any] = field(default_factory=dict)
    dynamic: str = ""
    disabled_at: str = ""


def remedies(suspect: Suspect) -> Iterator[Remedy]:
    """Yield what fits the kind of break or of guard, once each."""
    seen: set[str] = set()
    if suspect.graph_break is not None:
        found = _of_break(suspect)
    elif suspect.is_of_values and not suspect.is_of_first_call:
        found = _of_sizes(suspect)
    else:
        found = _of_guard(suspect)
    for remedy in found:
        if remedy.code not in seen:
            seen.add(remedy.code)
            yield remedy


def _of_break(suspect: Suspect) -> Iterator[Remedy]:
    found = suspect.graph_break
    assert found is not None
    text = " ".join((found.reason, found.explanation, found.hint))
    yield from _named_in(text)
    called = _CALLED.search(found.explanation)
    if "reorderable_logging_functions" in text and called and called[1] in _LOGGING:
        yield _functions("reorderable_logging_functions", [_LOGGING[called[1]]])
    if "ignore_logging_functions" in text:
        yield _functions("ignore_logging_functions", [*_LOGGER])


def _of_guard(suspect: Suspect) -> Iterator[Remedy]:
    capture = suspect.observation.capture
    guard = suspect.evidence.line
    if suspect.verdict.aspect != "recompiles" or capture is None or not guard:
        return
    for item in capture.compilations:
        if item.guard == guard:
            yield from _named_in(item.reason)
    if _SIZE.search(guard):
        for setting, code in _SETTINGS.items():
            if setting != suspect.case.dynamic:
                yield Remedy(code=code, dynamic=setting)
        yield _option("assume_static_by_default", value=False)
        if _PARAMETER.search(guard):
            yield _option("force_parameter_static_shapes", value=False)
    elif _NUMBER.search(guard):
        yield _option("allow_unspec_int_on_nn_module", value=True)
    if suspect.evidence.code:
        place = suspect.evidence.source
        code = f"@torch.compiler.disable  # on the function that has {place}"
        yield Remedy(code=code, disabled_at=place)


def _of_sizes(suspect: Suspect) -> Iterator[Remedy]:
    """Yield code for one size, where numbers are wrong in later calls."""
    if suspect.case.dynamic != "static":
        yield Remedy(code="torch.compile(model, dynamic=False)", dynamic="static")


def _named_in(text: str) -> Iterator[Remedy]:
    """Yield the options that PyTorch itself names."""
    for name, value in _OPTION.findall(text):
        yield _option(name, value=value == "True")


def _option(name: str, *, value: bool) -> Remedy:
    code = f"torch._dynamo.config.{name} = {value}"
    return Remedy(code=code, config={f"dynamo.{name}": value})


def _functions(option: str, names: list[str]) -> Remedy:
    """Return a remedy that adds functions to an option which is a set of them."""
    modules = sorted({name.split(".")[0] for name in names} - {"builtins"})
    imports = "".join(f"import {module}\n" for module in modules)
    written = ", ".join(name.removeprefix("builtins.") for name in names)
    code = f"{imports}torch._dynamo.config.{option} |= {{{written}}}"
    return Remedy(code=code, config={f"dynamo.{option}": names})
