"""Runs the cases of the trial in a healthy compiler, and in one with a mutant."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.runs import files
from compilegate.runs.reader import RunError
from tests.mutants.processes import CHECKOUT, run

ZOO = Path(__file__).with_name("zoo.py")
ASPECTS = ("forward", "gradients", "side_effects", "randomness", "graph_breaks", "recompiles")
#: Numbers that differ from the healthy ones by this many errors of eager are wrong.
ROUNDING = 10.0
#: Every case of the zoo, without the device.
CASES = (
    *(f"{model}-{{}}-infer-f32-default-auto" for model in ("convnet", "block", "cell")),
    *(f"{model}-{{}}-infer-f32-default-auto" for model in ("indexing", "stateful", "sampling")),
    *(f"{model}-{{}}-train-f32-default-static" for model in ("convnet", "block", "cell")),
    *(f"{model}-{{}}-train-f32-default-static" for model in ("indexing", "stateful", "sampling")),
    "pointwise-{}-infer-f32-default-auto",
    "pointwise-{}-infer-f32-default-dynamic",
    "pointwise-{}-train-f32-default-static",
    "pointwise-{}-train-bf16-default-auto",
    "block-{}-train-bf16-default-dynamic",
)


@dataclass(frozen=True)
class Mutant:
    """One change of PyTorch.

    Attributes:
        module: The module that is changed.
        number: The number of the site in it.
        kind: The kind of change.
        line: The line of the statement.
        before: The source that is changed.
        after: What it becomes.
        cases: The cases of the trial that execute the line.
    """

    module: str
    number: int
    kind: str
    line: int
    before: str
    after: str
    cases: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.module}:{self.number}"


@dataclass(frozen=True)
class Trial:
    """Where the trial runs, and how.

    Attributes:
        home: The folder of its files.
        device: ``cpu`` or ``cuda``.
        most_cases: A mutant is compiled in this many cases at most.
        timeout_s: Seconds for one case.
    """

    home: Path
    device: str
    most_cases: int
    timeout_s: float

    @property
    def cases(self) -> list[str]:
        return [case.format(self.device) for case in CASES]

    def plain(
        self,
        name: str,
        cases: Sequence[str],
        changes: Mapping[str, int | None] | None,
        *,
        stores: bool = False,
    ) -> tuple[list[dict[str, Any]], str]:
        """Compile cases without compilegate.

        Args:
            name: The name of the job.
            cases: The ids of the cases.
            changes: The modules of PyTorch that are changed.
            stores: Whether others are compared with these facts.

        Returns:
            The lines of `tests.mutants.plain`, and how the process ended, if not well.
        """
        folder = self.home / "healthy"
        folder.mkdir(parents=True, exist_ok=True)
        words = ["tests.mutants.plain", str(folder), *cases, *(["--store"] if stores else [])]
        ended = self._run(words, f"{name}-plain", changes, self.timeout_s * (1 + len(cases)))
        lines = [json.loads(line) for line in ended.output.splitlines() if line[:1] == "{"]
        fault = "timeout" if ended.timed_out else ""
        if ended.status and not ended.timed_out:
            fault = f"exit status {ended.status}: {ended.errors[-600:]}"
        return lines, fault

    def session(
        self, name: str, cases: Sequence[str], changes: Mapping[str, int | None] | None
    ) -> dict[str, Any]:
        """Run compilegate over cases until a verdict fails.

        Returns:
            The verdicts that failed or were inconclusive, and how the session ended.
        """
        home = self.home / "jobs" / f"{name}-session"
        words = ["pytest", "-x", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
        words += ["--benchmark-disable", "--tier", "full", "--zoo", str(ZOO), "--save", "trial"]
        words += ["-o", f"runs_dir={home / 'runs'}", "--case-timeout", f"{self.timeout_s * 1.5:g}"]
        words += [word for case in cases for word in ("--cases", case)]
        words += [str(CHECKOUT / "suites" / f"test_{aspect}.py") for aspect in ASPECTS]
        ended = self._run(words, f"{name}-session", changes, self.timeout_s * (1 + 3 * len(cases)))
        verdicts = []
        try:
            verdicts = [*files.read(home / "runs" / "trial.jsonl").verdicts.values()]
        except (RunError, OSError) as error:
            ended.errors += str(error)
        found = {
            outcome: [(v.case, v.aspect, v.summary[:400]) for v in verdicts if v.outcome == outcome]
            for outcome in ("failed", "inconclusive")
        }
        passed = sum(verdict.outcome == "passed" for verdict in verdicts)
        result = {
            **found,
            "passed": passed,
            "status": ended.status,
            "seconds": round(ended.seconds),
        }
        if ended.timed_out or ended.status not in (0, 1):
            result["end"] = "timeout" if ended.timed_out else (ended.output + ended.errors)[-800:]
        return result

    def _run(
        self,
        words: Sequence[str],
        name: str,
        changes: Mapping[str, int | None] | None,
        limit: float,
    ) -> Any:
        return run(
            words,
            self.home / "jobs" / name,
            changes,
            cache=self.home / "cache",
            timeout_s=limit,
            limits_memory=self.device == "cpu",
        )

    def examine(self, mutant: Mutant) -> dict[str, Any]:
        """Return what became of a mutant."""
        name = mutant.name.replace(":", "-")
        draws = random.Random(mutant.name)
        cases = draws.sample(mutant.cases, min(self.most_cases, len(mutant.cases)))
        changes = {mutant.module: mutant.number}
        plain, fault = self.plain(name, cases, changes)
        known = {line["case"] for line in plain}
        crashed = [line["case"] for line in plain if "crashed" in line]
        if fault:
            crashed += [case for case in cases if case not in known][:1]
        differing = [line["case"] for line in plain if line.get("differs")]
        for line in plain:
            line.pop("lines", None)
        result = {"fault": fault, "plain": plain, "cases": cases}
        if not crashed and not differing:
            return {**result, "class": "equivalent"}
        judged = crashed[:1] or by_difference(plain)[: self.most_cases]
        session = self.session(name, judged, changes)
        return {**result, "session": session, "class": classify(plain, fault, session)}


def by_difference(plain: Iterable[dict[str, Any]]) -> list[str]:
    """Return the cases that differ; first those that differ in numbers."""
    differing = [line for line in plain if line.get("differs")]
    differing.sort(key=lambda line: "numbers" not in line["differs"])
    return [line["case"] for line in differing]


def classify(plain: Iterable[dict[str, Any]], fault: str, session: Mapping[str, Any]) -> str:
    """Return the class of a mutant that compiles otherwise than the healthy compiler.

    Args:
        plain: The lines of the process without compilegate.
        fault: How that process ended, if not well.
        session: What compilegate's session found.
    """
    lines = [*plain]
    crashes = bool(fault) or any("crashed" in line for line in lines)
    reported = session["failed"] or session["status"] not in (0, 1)
    if crashes:
        return "crashed" if reported else "crash missed"
    if reported:
        return "detected" if session["failed"] else "session ended"
    if session["inconclusive"]:
        return "inconclusive"
    parts = {part for line in lines for part in line["differs"]}
    if "numbers" in parts and max(line.get("over_eager", 0.0) for line in lines) > ROUNDING:
        return "survived: other numbers"
    for part in ("layouts", "graphs", "guards"):
        if part in parts:
            return f"survived: other {part}"
    return "survived: rounded otherwise" if "numbers" in parts else "survived: same numbers"
