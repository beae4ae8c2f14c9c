"""The script that shows a culprit with torch alone, and exits with 1 if compiled code is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from compilegate.fuzzing.program import Program, builder_lines
from compilegate.records.case import Case

#: What a script checks.
VALUES, BREAKS, RECOMPILES = "values", "breaks", "recompiles"

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
    autoescape=False,
)
_DYNAMIC = {"static": False, "auto": None, "dynamic": True, "marked": None}
_MODES = {"reduce_overhead": "reduce-overhead", "max_autotune": "max-autotune"}
#: The longest title, in characters.
_TITLE = 92
_AUTOCAST = {"bf16": "torch.bfloat16", "f16": "torch.float16"}
_CAST = {"bf16_weights": "torch.bfloat16", "f16_weights": "torch.float16"}


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script, and how it was made.

    Attributes:
        text: The script.
        origin: From what it was made, in words.
        program: The reduced program; None for a script that holds the recipe of the model.
    """

    text: str
    origin: str
    program: Program | None = None


def of_program(program: Program, case: Case, title: str) -> str:
    """Return a script that shows what a reduced program does.

    Args:
        program: The program.
        case: The case that it was reduced from.
        title: What is wrong, in one line.
    """
    train, lines = program.phase == "train", [*builder_lines(program)]
    return _script(lines, case, title, VALUES, (), train=train, backend=program.backend)


def of_recipe(
    lines: Sequence[str],
    case: Case,
    title: str,
    check: str,
    sizes: Sequence[Mapping[str, int]],
    *,
    seed: int = 0,
    backend: str = "inductor",
    identities: Sequence[str] = (),
) -> str:
    """Return a script that holds the recipe of a model.

    Args:
        lines: The lines that define the function ``recipe``.
        case: The case.
        title: What is wrong, in one line.
        check: What the script checks.
        sizes: The sizes of each call, for a recipe that lists no calls of its own.
        seed: The seed of weights and inputs.
        backend: The compiler backend.
        identities: Submodules that an ``nn.Identity`` replaces.
    """
    train, head = case.phase == "train", (lines, case, title, check, sizes)
    return _script(*head, train=train, seed=seed, backend=backend, identities=identities)


def _script(
    lines: Iterable[str],
    case: Case,
    title: str,
    check: str,
    sizes: Sequence[Mapping[str, int]],
    *,
    train: bool,
    backend: str,
    seed: int = 0,
    identities: Sequence[str] = (),
) -> str:
    body = "\n".join(lines)
    options: dict[str, object] = {"dynamic": _DYNAMIC[case.dynamic]}
    if check == BREAKS:
        options["fullgraph"] = True
    if (mode := _MODES.get(case.mode)) and backend == "inductor":
        options["mode"] = mode
    autocast, cast = _AUTOCAST.get(case.precision), _CAST.get(case.weights)
    around = f", torch.autocast({case.device!r}, {autocast}, enabled=dtype is None)"
    is_example, has_calls = "def recipe(" in body, "calls=" in body
    loop = f"enumerate({[dict(each) for each in sizes]})" if is_example else "range(2)"
    return _TEMPLATES.get_template("repro.py.j2").render(
        title=plain(title)[:_TITLE],
        body=body,
        check=check,
        backend=backend,
        seed=seed,
        train=train,
        with_grad=train or "with_grad=True" in body,
        device=case.device,
        dtype=f"dtype or {cast}" if cast else "dtype",
        around=around if autocast else "",
        moved="t" if case.device == "cpu" else 't.to("cuda") if torch.is_tensor(t) else t',
        options=", ".join(f"{name}={value!r}" for name, value in options.items()),
        example=is_example,
        identities=identities,
        calls=has_calls,
        loop=loop,
        before="before=" in body,
        after="after=" in body,
        state=("nn." if is_example else "self.") in body,
        uses_nn=bool(re.search(r"\bnn\.", body)) and "    from torch import nn" not in body,
        uses_functional=bool(re.search(r"\bF\.", body)),
    )


def plain(line: str) -> str:
    """Return a line that may stand in a docstring."""
    return " ".join(line.replace("\\", "/").replace('"', "'").split())
