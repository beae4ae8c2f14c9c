"""The script that shows a culprit with torch alone, and exits with 1 if compiled code is wrong."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jinja2

from compilegate.fuzzing.outcome import SILENT
from compilegate.fuzzing.program import Program, function_lines, module_lines
from compilegate.records.case import Case, torch_mode
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.source.recipe import Recipe
from compilegate.triage.source.recipe_facts import RecipeFacts

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
    autoescape=False,
)
_DYNAMIC = {"static": False, "auto": None, "dynamic": True, "marked": None}
#: How products in float32 round on a GPU. cuDNN uses TF32 by default.
_TF32 = 'torch.set_float32_matmul_precision("high")'
_NO_TF32 = "torch.backends.cudnn.allow_tf32 = False"
#: Inductor draws other random numbers than eager, unless it is set so.
_AS_EAGER = "torch._inductor.config.fallback_random = True  # draws what eager draws"
_NO_CACHES = "torch.compiler.config.force_disable_caches = True"
#: The longest title and the longest line, in characters.
_TITLE, _WIDTH = 92, 100
#: What ``faulthandler`` does in the script of a crash or a hang.
_DIES = {
    "crash": "enable()  # prints where it dies",
    "hang": "dump_traceback_later({:.0f}, exit=True)  # prints where it hangs, status 1",
}
#: Generators other than PyTorch's, and code that uses them.
_GENERATORS = {
    "random": re.compile(r"(?<![\w.])random\.\w"),
    "numpy.random": re.compile(r"\b(?:np|numpy)\.random\."),
}
_AUTOCAST = {"bf16": "torch.bfloat16", "f16": "torch.float16"}
_CAST = {"bf16_weights": "torch.bfloat16", "f16_weights": "torch.float16"}


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script, and how it was made.

    Attributes:
        text: The script.
        origin: From what it was made, in words.
        program: The reduced program; None for a script that holds the recipe of the model.
        says: What it prints where it shows the culprit and nothing else: the class of an error.
        is_exact: Whether it computes in float32, unlike the case.
        modules: The modules of the team that it imports.
        paths: The folders in which those are found.
        source: The lines of the recipe that it holds; empty if it holds none.
    """

    text: str
    origin: str
    program: Program | None = None
    says: str = ""
    is_exact: bool = False
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    source: Sequence[str] = ()

    @property
    def needs(self) -> str:
        """What it needs of the team, in one sentence; empty for nothing."""
        return needs(self.modules, self.paths)


def needs(modules: Sequence[str], paths: Sequence[str]) -> str:
    """Return what a script needs of the team, in one sentence; empty for nothing."""
    if not modules:
        return ""
    what = f"the module{'s' * (len(modules) != 1)} {', '.join(modules)}"
    return f"It needs {what} of the team: run it with PYTHONPATH={os.pathsep.join(paths)}"


def of_program(program: Program, case: Case, shows: Shows, operators: Recipe | None = None) -> str:
    """Return a script that shows what a reduced program does.

    Args:
        program: The program.
        case: The case that it was reduced from.
        shows: What is wrong.
        operators: The source of operators that it calls and PyTorch does not have.
    """
    lines = [line for line in operators.lines if line] if operators else []
    lines += module_lines(program) if program.held else function_lines(program)
    lines += ["", "def inputs():", *_inputs_lines(program)]
    facts: dict[str, Any] = {"is_module": bool(program.held), "example": False, "picks": False}
    facts |= {"given": "args", "args": "inputs()", "loop": "", "seed": 0}
    config = [_AS_EAGER] * (shows.draws and program.backend == "inductor")
    facts |= {"plain": not shows.careful, "config": config, "last": 0, "holds_variable": False}
    facts |= {"marks": False, "shared": [], "part": ""}
    facts["needs"] = needs(operators.modules, operators.paths) if operators else ""
    train = program.phase == "train"
    return _text("\n".join(lines), case, shows, facts, train=train, backend=program.backend)


def may_be_brief(program: Program, shows: Shows) -> bool:
    """Whether one output of a program may show all of it."""
    is_function = program.phase == "infer" and not program.held
    is_of_values = shows.kind in ("values", "integers") and not (shows.aliasing or shows.sliced)
    return is_function and is_of_values and len(program.returns) == 1 and not shows.draws


def _inputs_lines(program: Program) -> Iterator[str]:
    texts = [value.text for value in program.inputs]
    line = f"    return ({', '.join(texts)}{',' if len(texts) == 1 else ''})"
    if len(line) < _WIDTH:
        yield line
    else:
        yield from ("    return (", *(f"        {text}," for text in texts), "    )")


def of_recipe(
    source: Recipe,
    case: Case,
    shows: Shows,
    sizes: Sequence[Mapping[str, int]],
    *,
    seed: int = 0,
    backend: str = "inductor",
    identities: Sequence[str] = (),
    part: str = "",
    tf32: bool = False,
    cold: bool = False,
) -> str:
    """Return a script that holds the recipe of a model.

    Args:
        source: The source of the recipe.
        case: The case.
        shows: What is wrong.
        sizes: The sizes of each call, for a recipe that lists no calls of its own.
        seed: The seed of weights and inputs.
        backend: The compiler backend.
        identities: Submodules that an ``nn.Identity`` replaces.
        part: The submodule that is compiled alone, with eager's inputs; empty for the whole model.
        tf32: Whether f32 products round to TF32 on a GPU.
        cold: Whether it shows only where PyTorch reads no compiled code from its caches.
    """
    body, train = "\n".join(filter(None, source.lines)), case.phase == "train"
    recipe = RecipeFacts(body)
    if variable := recipe.variable_of(shows.where):
        body = recipe.holding(variable)
    facts = recipe.arguments(sizes[: shows.calls or None], only=shows.calls == 1)
    facts |= {"example": True, "seed": seed, "config": [*recipe.config], "last": len(sizes)}
    facts |= {"holds_variable": bool(variable), "part": part}
    places = map(recipe.shared, shows.differs or (shows.where,))
    facts["shared"] = [*dict.fromkeys(place for place in places if place is not None)]
    facts["needs"] = needs(source.modules, source.paths)
    facts["marks"] = case.dynamic == "marked" and recipe.has_dims
    if case.device == "cuda" and not case.computes_in_half:
        facts["config"].append(_TF32 if tf32 else _NO_TF32)
    facts["config"] += [_AS_EAGER] * (shows.draws and backend == "inductor")
    facts["config"] += [_NO_CACHES] * cold
    # What holds a submodule is a module. Its inputs are mostly tensors, as those of a part are.
    facts["is_module"] = None if shows.careful else bool(part) or recipe.is_module
    facts["picks"] = recipe.picks_output
    facts["plain"] = recipe.gives_fresh_tensors and not shows.careful
    return _text(body, case, shows, facts, train=train, backend=backend, identities=identities)


def _text(
    body: str,
    case: Case,
    shows: Shows,
    facts: Mapping[str, Any],
    *,
    train: bool,
    backend: str,
    identities: Sequence[str] = (),
) -> str:
    options: dict[str, object] = {"dynamic": _DYNAMIC[case.dynamic]}
    if shows.strict == "breaks" and not shows.counted:
        options["fullgraph"] = True
    has_mode = case.mode != "default" and backend == "inductor"
    looks = not (shows.strict or shows.most)  # at tensors
    compares = shows.kind in SILENT and looks
    cast, aliasing = _CAST.get(case.weights), compares and (shows.aliasing or shows.careful)
    is_attribute = shows.where.startswith("attribute ") and " class " not in shows.where
    holds_attributes = is_attribute and facts["is_module"] is not False
    numbers = compares and bool(holds_attributes or facts["holds_variable"] or facts["shared"])
    trees = {"keystr": looks, "tree_flatten_with_path": looks, "tree_leaves": train or aliasing}
    converts = looks or bool(cast) or case.device == "cuda"
    maps = (converts or bool(shows.change)) and not facts["plain"]
    trees["tree_map"], trees["tree_map_only"] = numbers, maps
    dies = "" if shows.exits else _DIES.get(shows.kind, "").format(shows.hangs_s)
    modules = {"copy": (facts["loop"] and looks) or facts["shared"], "faulthandler": dies}
    draws = {name: bool(code.search(body)) for name, code in _GENERATORS.items()}
    modules |= {"numpy": draws["numpy.random"], "os": True, "random": draws["random"], "sys": True}
    modules["tempfile"] = shows.cached
    known = {
        "title": _short(shows.title),
        "marks": facts["marks"],
        "body": body,
        "backend": backend,
        "train": train,
        "trains_inputs": not (case.computes_in_half and facts["is_module"]),
        "device": case.device,
        "dtype": " or ".join(filter(None, ("dtype" if looks else "", cast))),
        "converts": converts,
        "around": ", ".join(_around(case, train=train or "with_grad=True" in body, only=not looks)),
        "options": ", ".join(f"{name}={value!r}" for name, value in options.items()),
        "mode": torch_mode(case.mode) if has_mode else "",
        "identities": identities,
        "raises": shows.raises,
        "raising": shows.kind == "raises",
        "wants_eager": shows.kind in ("raises", "crash", "hang"),
        "compares": compares,
        "recompiles": shows.strict == "recompiles",
        "most": shows.most if shows.recompilations is None else shows.recompilations + 1,
        "more": shows.more,
        "strict": bool(shows.strict),
        "counted": shows.counted,
        "reason": shows.reason,
        "holds_attributes": holds_attributes and compares,
        "numbers": numbers,
        "only_numbers": numbers and shows.is_number and not shows.careful,
        "aliasing": aliasing,
        "identity": compares and shows.identity,
        "sliced": compares and shows.sliced,
        "change": shows.change,
        "cotangents": shows.cotangents,
        "setting": shows.setting if facts["is_module"] else "",
        "has_state": holds_attributes
        or (shows.kind == "state" and facts["is_module"] is not False),
        "cached": shows.cached,
        "generators": [name for name, is_used in draws.items() if is_used],
        "has_weights": train and compares and facts["is_module"] is not False,
        "dies": dies,
        "exits": shows.exits,
        "hangs": shows.kind == "hang",
        "modules": [name for name, is_used in modules.items() if is_used],
        "trees": ", ".join(name for name, is_used in trees.items() if is_used),
        "uses_nn": bool(re.search(r"(?<![\w.])nn\.", body)) and "from torch import nn" not in body,
        "uses_functional": bool(re.search(r"\bF\.", body)),
        "before": "before=" in body,
        "after": "after=" in body,
        "module": "program" if not facts["example"] and not facts["is_module"] else "module",
    }
    template = "brief" if shows.brief else "memory" if shows.most else "repro"
    return _TEMPLATES.get_template(f"{template}.py.j2").render(known | dict(facts))


def _around(case: Case, *, train: bool, only: bool) -> Iterator[str]:
    """Yield the context managers of a call. Calls in float64 use no autocast, if there are any."""
    if not train:
        yield "torch.no_grad()"
    if autocast := _AUTOCAST.get(case.precision):
        unless = "" if only else ", enabled=dtype is None"
        yield f"torch.autocast({case.device!r}, {autocast}{unless})"


def titled(script: Script, title: str) -> Script:
    """Return a script with another title. Its lines keep their numbers."""
    rest = script.text.partition("\n")[2]
    return replace(script, text=f'"""{_short(title)}"""\n{rest}')


def _short(title: str) -> str:
    return textwrap.shorten(plain(title), _TITLE, placeholder=" …")


def plain(line: str) -> str:
    """Return a line that may stand in a docstring."""
    return " ".join(line.replace("\\", "/").replace('"', "'").split())
