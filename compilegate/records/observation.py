"""The record of what was measured for a case, shared by those who observe and those who judge.

Plain data, and standard library only, since the observed interpreter need not have more than torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, get_args

from compilegate.records.call import CallFacts
from compilegate.records.performance import (
    CompileTime,
    CompileWork,
    Energy,
    Memory,
    OtherSize,
    Timing,
)
from compilegate.records.practice import Practice, PracticeName
from compilegate.records.randomness import Randomness

#: PyTorch's pages about graph breaks, one for each entry of its registry.
_PAGES = "https://meta-pytorch.org/compile-graph-break-site/gb"

#: What asks for probing calls.
ProbingWant = Literal["reuse", "respecialise", "every_layout", "small_batches", "plain_inputs"]

#: What a suite may want to know about a case, in the order in which it is observed.
Want = Literal[
    "capture",
    "time",
    "memory",
    "energy",
    "vary",
    ProbingWant,
    "random",
    "start",
    "compile_work",
    PracticeName,
]

WANTS: tuple[Want, ...] = get_args(Want)
PROBING: tuple[Want, ...] = get_args(ProbingWant)

#: How observing a case ended. Everything but *completed* carries a :class:`Failure`.
Status = Literal[
    "completed",
    "raised",
    "out_of_memory",
    "crashed",
    "timed_out",
    "could_not_start",
    "unavailable",
]

#: The stages of observing a case: start the process, build the model, run it eagerly, compile it
#: (the first call), call it again, time it, measure its memory and energy, call it at other sizes,
#: probe it, let it draw, compile it with warm caches, and twice more to count calls. Each practice.
Stage = Literal[
    "start",
    "build",
    "eager",
    "compile",
    "call",
    "time",
    "memory",
    "energy",
    "vary",
    "probe",
    "random",
    "restart",
    "compile_work",
    PracticeName,
]

#: The kind of failure of a case that was ended while others took the processor that it needed.
BUSY_MACHINE = "busy machine"
#: The activity of a case that waits for its turn to time, or was stopped in the turn of another.
WAITING = "wait for turns"
#: And while others had the memory that it needs.
WAITING_FOR_MEMORY = "wait for memory"
#: And of one that was observed before, where others took the memory or the processor it needed.
EARLIER_ATTEMPTS = "earlier attempts"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The failure that ended the observation of a case early.

    Attributes:
        stage: The stage that it had reached.
        kind: The exception's class, the name of the signal, ``timeout`` or ``busy machine``.
        message: One line.
        traceback: As Python prints it, empty for a process that died.
        output: The last lines that the process wrote.
        call: The call in which compiled code raised and eager did not: ``call 5 (batch=4)``.
        held_by_others: The share of the GPU's memory that other processes held when it ran out;
            None where the driver would not say.
        others_took: Of a process that died or was killed: the share of the processor time that its
            case wanted and other processes took. None where that was not recorded.
    """

    stage: Stage
    kind: str
    message: str
    traceback: str = ""
    output: str = ""
    call: str = ""
    held_by_others: float | None = 0.0
    others_took: float | None = None


#: How Dynamo names what is left of a function after a graph break.
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")


def written(function: str) -> str:
    """Return the name that a function has in the source, also where Dynamo resumes in it."""
    return _RESUMED.sub(r"\1", function)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A line of source. ``file`` is relative to its package: ``timm/layers/pool.py``.

    The user's own file is relative to the root of the project: ``my_net/routing.py``. Runs of
    earlier versions hold its name alone.

    Attributes:
        file: Path of the file.
        line: Line number, from 1.
        function: Name of the function.
        owner: Whose code that is: ``torch``, the name of a library, or ``model``.
    """

    file: str
    line: int
    function: str
    owner: str

    @property
    def source(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return f"{self.source} in {self.function}"


@dataclass(frozen=True, kw_only=True)
class GraphBreak:
    """A distinct graph break: the same reason at the same place is one, however often it occurs.

    Attributes:
        reason: First line of Dynamo's reason.
        id: Its entry in PyTorch's registry, ``GB0001``, where it has one.
        place: Innermost user frame.
        explanation: Dynamo's explanation, which names the call that broke the graph.
        hint: Dynamo's hints how to avoid it, one a line.
        calls: Indices into ``calls`` of the calls that it occurred in. Empty where that is not
            known, as in runs of earlier versions.
        broken_at: Of a frame that is left to eager: file and line of the code that it is left for.
            Empty where that is not known, as in runs of earlier versions.
    """

    reason: str
    id: str
    place: Place | None
    explanation: str = field(default="", compare=False)
    hint: str = field(default="", compare=False)
    calls: tuple[int, ...] = field(default=(), compare=False)
    broken_at: str = field(default="", compare=False)

    @property
    def source(self) -> str:
        """File and line of the code that Dynamo cannot trace; empty where that is not known."""
        return self.broken_at or (self.place.source if self.place else "")

    @property
    def cause(self) -> str:
        """What PyTorch gives as the cause, and often the setting that allows it; else empty.

        The reason of a call that Dynamo refuses is the same for all such calls.
        """
        return self.explanation.partition(" Reason: ")[2].rstrip(".")

    @property
    def file(self) -> str:
        """The file where it is; line numbers change from version to version."""
        return self.place.file if self.place else ""

    @property
    def page(self) -> str:
        """The address of PyTorch's page about it; empty where it has none."""
        return f"{_PAGES}/{self.id.lower()}.html" if self.id else ""

    @property
    def help(self) -> tuple[str, ...]:
        """What explains it and how to avoid it, a line each, as far as PyTorch documents it."""
        frame = (f"the frame is left to eager for {self.broken_at}",) if self.broken_at else ()
        explanation = (f"explanation: {self.explanation}",) if self.explanation else ()
        hints = (f"hint: {hint}" for hint in self.hint.splitlines())
        return (*frame, *explanation, *hints, *((f"see {self.page}",) if self.page else ()))

    def __str__(self) -> str:
        place = f" at {self.place} ({self.place.owner})" if self.place else ""
        cause = f": {self.cause}" if self.cause else ""
        return f"{self.reason}{f' [{self.id}]' if self.id else ''}{place}{cause}"


#: What PyTorch writes after a guard: the line that it is for, and the end of that line's path.
_COMMENT = re.compile(r"\s+# (?:(?P<source>.*?)\s+# )?(?:\S+:\d+ in \S+.*|\(unknown source .*)$")


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """One compilation of one code object by Dynamo.

    Attributes:
        code: The code object.
        call: Index into ``calls`` of the call that triggered it.
        compile_id: Dynamo's own name for it, ``0/1``: frame 0, compiled for the second time.
        graph: Whether it made guarded code (a skipped frame does not).
        reason: Of a recompilation: the guard that failed.
        failure: Why the frame was left to eager, if it was.
        symbolic: Whether its code is for any number in some dimension, not for one size.
        guarded_at: File and line of the code that the guard is for, where PyTorch names it.
    """

    code: Place
    call: int
    compile_id: str
    graph: bool
    reason: str = ""
    failure: str = ""
    symbolic: bool = False
    guarded_at: str = ""

    @property
    def guard(self) -> str:
        """The guard that failed, without PyTorch's comment; empty for a first compilation."""
        return _COMMENT.sub("", self.reason)

    @property
    def guarded(self) -> str:
        """The line of code that the guard is for, with its place; empty if PyTorch names none."""
        code = (found["source"] or "") if (found := _COMMENT.search(self.reason)) else ""
        return f"{self.guarded_at}: {code}" if self.guarded_at and code else code


@dataclass(frozen=True, kw_only=True)
class Capture:
    """The graphs, breaks and compilations of a case, from Dynamo's own records.

    Attributes:
        graphs: ``counters["stats"]["unique_graphs"]``.
        lowered: Whether Inductor made code for any, or found it in a cache.
        breaks: Distinct graph breaks.
        compilations: Every compilation, in order.
        limits: Messages of recompile limits that were hit; after one, Dynamo stops compiling.
        fallbacks: Frames that run entirely in eager.
        caches: Cache hits, misses and bypasses by counter.
        cudagraphs: CUDA graphs that were recorded, over all sizes.
        cudagraph_skips: Why CUDA graphs were not used.
    """

    graphs: int
    lowered: bool = True
    breaks: tuple[GraphBreak, ...] = ()
    compilations: tuple[Compilation, ...] = ()
    limits: tuple[str, ...] = ()
    fallbacks: tuple[GraphBreak, ...] = ()
    caches: dict[str, int] = field(default_factory=dict)
    cudagraphs: int = 0
    cudagraph_skips: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The measurements of a case. Facts, never verdicts.

    Attributes:
        case: Its id.
        status: How observing it ended.
        failure: Why it ended early.
        wants: What the request asked for.
        backend: The compiler backend.
        cold: Whether it compiled in an empty cache.
        seed: The seed of weights, inputs and cotangents.
        fingerprint: Digest of names, shapes and dtypes of what the model library has built.
        parameters: Number of parameters.
        reference: Precision of the reference run: ``float64``, with what stayed lower.
        calls: One entry a call of the compiled model.
        probes: One entry a probing call: what it compiled is no part of ``capture``.
        unprobed: Why other probing calls say nothing about the model, a line each.
        unsampled: Why eager could not make a call again to show its noise, a line each.
        capture: What was captured.
        compile_time: Compile time of the first call.
        timing: Paired rounds, if wanted.
        memory: Peak memory, if wanted.
        energy: Energy of a call, if wanted.
        other_size: Time and memory of calls at another size, if wanted and if there is one.
        tf32: Whether products of f32 matrices and convolutions may round to TF32 on a GPU.
        draws: Whether a call draws random numbers.
        randomness: Statistics of what it draws, if wanted.
        compile_work: Python calls while it compiled, if wanted.
        practices: What each practice that was wanted showed, by its name.
        signal: Whether weights were treated after building, so that the computation shows.
        input_gradients: Whether inputs could take part in differentiation.
        written_inputs: Inputs that could not, because the model writes to them.
        raises: The exception that every call must raise; empty if they must not.
        left_out: Why two calls could not overlap, where the phase asks for that.
        spent_s: Where the time went: compile, run, and the rest by name.
        output: The last lines that the process wrote while it observed the case.
    """

    case: str
    status: Status
    failure: Failure | None = None
    wants: tuple[Want, ...] = ()
    backend: str = "inductor"
    cold: bool = False
    seed: int = 0
    fingerprint: str = ""
    parameters: int = 0
    reference: str = ""
    calls: tuple[CallFacts, ...] = ()
    probes: tuple[CallFacts, ...] = ()
    unprobed: tuple[str, ...] = ()
    unsampled: tuple[str, ...] = ()
    capture: Capture | None = None
    compile_time: CompileTime | None = None
    timing: Timing | None = None
    memory: Memory | None = None
    energy: Energy | None = None
    other_size: OtherSize | None = None
    tf32: bool = False
    draws: bool = False
    randomness: Randomness | None = None
    compile_work: CompileWork | None = None
    practices: dict[str, Practice] = field(default_factory=dict)
    signal: Literal["", "off", "as built", "treated"] = ""
    input_gradients: bool = False
    written_inputs: tuple[str, ...] = ()
    raises: str = ""
    left_out: str = ""
    spent_s: dict[str, float] = field(default_factory=dict)
    output: str = ""
