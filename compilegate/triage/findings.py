"""What is known of a culprit, as far as an investigation has come."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from compilegate.fuzzing.outcome import Symptom
from compilegate.fuzzing.program import Program, Statement
from compilegate.records.part import CppLine, Held, Kernel, LineDiffers, OwnCode
from compilegate.triage.scripts.running import Verified
from compilegate.triage.scripts.script import Script
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.place import Place
from compilegate.triage.search.smallest import Smallest

#: The name of an operator in that of an overload: ``gelu`` in ``aten.gelu.default``.
_PACKET = re.compile(r"(?P<library>\w+)(?:\.|::)(?P<name>\w+)")
#: What a script prints whose C++ does not compile.
_CPP_ERROR = re.compile(r"CppCompileError|\.cpp:\d+:\d+: (?:fatal )?error: ")
#: How many statements of a script are few enough to be named.
_FEW = 4
#: The number that FX gives a node, and the overload, where no tracing made it.
NUMBER = re.compile(r"(?:_default)?(?:_\d+)*$")


@dataclass(frozen=True)
class Files:
    """Files of the user and settings of the run.

    Attributes:
        zoo: Absolute paths of zoo files.
        tf32: Whether f32 products round to TF32.
        root: The folder that files are named from; by default the current one.
    """

    zoo: Sequence[str] = ()
    tf32: bool = False
    root: str = ""


@dataclass
class Findings:
    """What is known of a culprit so far.

    Attributes:
        stage: Where on the ladder it begins.
        place: Where in the model it shows.
        own: Code that the compiler runs there and that is not PyTorch's.
        guilty: That of it which is at fault; None for none.
        code: The text of the line that shows it; empty if unknown.
        line: The first line whose result in a graph is wrong; None if it was not looked for.
        raises_at: The line of the user's code at which the compiler raises, and its text; empty if
            it names none.
        is_traced: Whether PyTorch names no line, and its graphs do: what raises may be
            the backward of what the line calls.
        cpp: The line of C++ that does not compile; None if it is not known.
        alone: The program of the operator that the stack of a hang or a crash names, and how it
            fails alone; None if it does not.
        smallest: The smallest sizes at which it shows, and whether it does in float32.
        kernels: What takes the time of a call, where compiled calls are slow.
        held: What memory holds at the peak of a call, where compiled calls need much.
        script: The script that is shipped; None if there is none.
        verified: What the script did; None if it was not run.
        tried_scripts: What became of the scripts that are not shipped.
        errors: How each script failed by itself; empty for one that did not.
        bisected: What torch's bisector found.
        called_at: The lines of the user's code that call the operator which the bisector named.
        workarounds: Code that makes the case pass, and how that was tried.
        helpless: Code with which the case fails as before.
        notes: What could not be done, and why.
        is_recognised: Whether the operator of an earlier culprit fails alone here, too.
        also: Where else its cause shows, a line for each culprit that was joined with it.
        elsewhere: Which other reports name a submodule of this model, a sentence each.
        seconds: How long each part took.
    """

    stage: Stage = field(default_factory=Stage)
    place: Place = field(default_factory=Place)
    own: list[OwnCode] = field(default_factory=list)
    guilty: OwnCode | None = None
    code: str = ""
    line: LineDiffers | None = None
    raises_at: str = ""
    is_traced: bool = False
    cpp: CppLine | None = None
    alone: tuple[Program, Symptom] | None = None
    smallest: Smallest = field(default_factory=Smallest)
    kernels: list[Kernel] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    script: Script | None = None
    verified: Verified | None = None
    tried_scripts: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    bisected: dict[str, Any] = field(default_factory=dict)
    called_at: list[str] = field(default_factory=list)
    workarounds: list[tuple[str, str]] = field(default_factory=list)
    helpless: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_recognised: bool = False
    also: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def bisected_operator(self) -> str:
        """The operator whose decomposition or lowering the bisector named; empty for a pass."""
        what = str(self.bisected.get("what") or "")
        match self.bisected.get("subsystem"):
            case "decomposition":
                found = _PACKET.search(what)
                return found["name"] if found else ""
            case "lowerings":
                return NUMBER.sub("", what)
        return ""

    @property
    def operator(self) -> str:
        """The operator that fails alone, that of the line of C++, or what the bisector named.

        That of another library than PyTorch's has its name, too: ``acme::scale``.
        """
        of_cpp = self.cpp.operator if self.cpp is not None else ""
        name = self.place.operator or of_cpp or self.bisected_operator
        found = _PACKET.search(str(self.bisected.get("what") or ""))
        if found is None or found["name"] != name or found["library"] in ("aten", "prims"):
            return name
        return f"{found['library']}::{name}"

    @property
    def wrong_line(self) -> str:
        """The line of the user's code that shows it first; empty if that is not known.

        That is where compiled code raises, what eager alone computes, what a graph gets wrong, or
        what the backward computes again.
        """
        if self.stage.is_recomputed and len(self.stage.draws.kept) == 1:
            return self.stage.draws.kept[0].partition(": ")[0]
        if self.line is None:
            return self.raises_at.partition(": ")[0]
        left_out = (line.partition(": ")[0] for line in self.line.left_out)
        lost = self.line.lost[0].partition(": ")[0] if len(self.line.lost) == 1 else ""
        return next(left_out, self.line.source or lost)

    @property
    def named(self) -> str:
        """The operator that fails alone, those that fail together, or what the bisector named."""
        if self.place.operator or self.cpp is not None or not self.together:
            return self.operator
        return ", ".join(dict.fromkeys(each.operator for each in self.together))

    @property
    def pattern(self) -> str:
        """The pattern that the pass replaces which the bisector named; empty if not one alone."""
        found = self.bisected.get("patterns", ())
        return str(found[0]["name"]) if len(found) == 1 else ""

    @property
    def needs_fusion(self) -> bool:
        """Whether the operator that the bisector named is right where nothing is fused with it."""
        helps = self.bisected.get("helps", ())
        return bool(self.bisected_operator) and any("max_fusion_size" in each for each in helps)

    @property
    def compiles_unvectorised(self) -> bool:
        """Whether C++ that a compiler refuses is accepted where Inductor uses no vectors."""
        helps = self.bisected.get("helps", ())
        printed = self.verified.red.output if self.verified is not None else ""
        return bool(_CPP_ERROR.search(printed)) and any("cpp.simdlen" in each for each in helps)

    @property
    def together(self) -> Sequence[Statement]:
        """The few operators of a verified script of which none fails alone; else none."""
        holds = self.verified is not None and self.verified.holds
        program = self.script.program if self.script is not None and holds else None
        found = program.statements if program is not None and not self.place.operator else ()
        return found if 1 < len(found) <= _FEW else ()

    @property
    def sources(self) -> list[str]:
        """The lines of the user's code that call the operator."""
        of_cpp = self.cpp.source if self.cpp is not None and not self.place.operator else ""
        known = self.place.source or of_cpp
        return [known] if known else self.called_at
