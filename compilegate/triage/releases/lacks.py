"""Tells what torch did from what an environment lacks: only the first is good or bad of a release.

A library may be missing, too old or too new; the C++ compiler or a header may be missing; torch may
not support this Python. Where eager cannot run a case, nothing is known of the compiler either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from compilegate.records.observation import Failure, Observation

#: The stages before anything is compiled.
_EAGER = {"start": "the process did not start", "build": "the model cannot be built"}
#: The folders of headers that torch itself has: one that is missing there is torch's fault.
_OF_TORCH = r"(?!ATen/|c10/|torch/|caffe2/)"
#: What an error says that is lacking, whatever raised it, and the words for that.
_ANYWHERE: dict[re.Pattern[str], str] = {
    re.compile(r"No module named '(?!torch\b)([\w.]+)'"): "the module {0}",
    re.compile(r"([\w.+-]+\.so[\d.]*): cannot open shared object file"): "the library {0}",
    re.compile(rf"(?<!\S)({_OF_TORCH}\S+\.h(?:pp)?): No such file"): "the header {0}",
    re.compile(r"InvalidCxxCompiler|No working C\+\+ compiler"): "a C++ compiler that works",
    re.compile(r"not supported on Python (\S+)"): "a Python that this torch supports: not {0}",
    re.compile(r"TritonMissing|Cannot find a working triton"): "a triton that works",
    re.compile(r"(?i:numpy) is not available"): "a NumPy that this torch can use",
}
#: The same where nothing is compiled yet. Later, the compiler may be at fault.
_IN_EAGER: dict[re.Pattern[str], str] = {
    re.compile(r"^(\w+) cannot be imported"): "a {0} that can be imported",
    re.compile(r"cannot import name '(\w+)' from '(\w+)"): "a {1} that has {0}",
    re.compile(r"module '(\w+)([\w.]*)' has no attribute '(\w+)'"): "a {0} that has {0}{1}.{2}",
    **_ANYWHERE,
}


def lack(made: Observation, versions: Mapping[str, str]) -> str:
    """Return why an observation says nothing of torch's compiler; empty where it does.

    Args:
        made: The observation.
        versions: The versions of torch and of libraries in the environment.
    """
    if (failure := made.failure) is None:
        raised = {call.raised for call in made.calls}
        is_meant = bool(made.raises) or not all(raised)
        return "" if is_meant else _found(_IN_EAGER, "\n".join(sorted(raised)), versions)
    said = f"{failure.kind}: {failure.message}"
    if made.status == "unavailable":
        return _named(_IN_EAGER, failure.message, versions, "")
    if failure.stage in ("start", "build", "eager") or made.status == "could_not_start":
        how = _EAGER.get(failure.stage, "eager cannot run the case")
        return _named(_IN_EAGER, said if made.status == "raised" else failure.kind, versions, how)
    if made.status == "raised" and not _has_frames(failure):
        torch = versions.get("torch", "")
        return f"compilegate itself cannot observe the case under torch {torch}: {said}"
    return _found(_ANYWHERE, said, versions)


def unstarted(text: str) -> str:
    """Return in one line why the observing process did not start in an environment.

    Args:
        text: What is known, of which the last line is the error.
    """
    first, *others = [line.strip() for line in text.splitlines() if line.strip()] or [text]
    if not others:
        return first
    return _found(_ANYWHERE, others[-1], {}) or f"compilegate cannot start there: {others[-1]}"


def _has_frames(failure: Failure) -> bool:
    """Whether others than compilegate's functions, which a traceback leaves out, raised."""
    return not failure.traceback or '  File "' in failure.traceback


def _named(
    patterns: Mapping[re.Pattern[str], str], said: str, versions: Mapping[str, str], how: str
) -> str:
    """Return what is lacking, or else what was said, after words for how that showed."""
    otherwise = f"{how}: {said}" if how else said
    return _found(patterns, said, versions) or otherwise


def _found(patterns: Mapping[re.Pattern[str], str], said: str, versions: Mapping[str, str]) -> str:
    """Return what an error says that is lacking, with the version of what is there, if any."""
    for pattern, words in patterns.items():
        if found := pattern.search(said):
            there = [f"{name} {versions[name]}" for name in found.groups() if name in versions]
            has = f" (it has {', '.join(there)})" if there else ""
            return f"the environment lacks {words.format(*found.groups())}{has}: {said}"
    return ""
