"""Chooses mutants at random, evenly over the modules of the compiler and the kinds of change."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.mutants.processes import HOOK
from tests.mutants.trial import Mutant

sys.path.append(str(HOOK))
import mutation  # as the interpreters of mutants find it

#: The files of PyTorch that are changed.
GLOBS = (
    *(f"_inductor/{name}.py" for name in ("lowering", "decomposition", "ir", "scheduler")),
    *(f"_inductor/{name}.py" for name in ("select_algorithm", "pattern_matcher")),
    *(f"_inductor/codegen/{name}.py" for name in ("cpp", "common", "simd", "triton", "wrapper")),
    "_inductor/fx_passes/*.py",
    "_inductor/kernel/*.py",
    "_decomp/decompositions.py",
    "_functorch/partitioners.py",
    "_functorch/_aot_autograd/*.py",
    *(f"_dynamo/{name}.py" for name in ("guards", "side_effects", "output_graph")),
    "_dynamo/variables/*.py",
)


def modules() -> dict[str, Path]:
    """Return the files of the compiler by the name of their module. This imports no torch."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    torch = Path(spec.origin).parent
    found = sorted(path for glob in GLOBS for path in torch.glob(glob))
    paths = [path for path in found if path.stem != "__init__"]
    return {".".join(path.relative_to(torch.parent).with_suffix("").parts): path for path in paths}


def order(lines: Mapping[str, Mapping[str, list[int]]], seed: int) -> Iterator[Mutant]:
    """Yield all mutants of executed lines in an order that a seed draws.

    Each round takes one mutant of each module. Each module takes its kinds of change in turns.

    Args:
        lines: The executed lines, by case and module.
        seed: Seeds the order.
    """
    draws = random.Random(seed)
    turns = [_of_module(name, path, lines, draws) for name, path in modules().items()]
    draws.shuffle(turns)
    for taken in itertools.zip_longest(*turns):
        yield from (mutant for mutant in taken if mutant is not None)


def _of_module(
    name: str, path: Path, lines: Mapping[str, Mapping[str, list[int]]], draws: random.Random
) -> list[Mutant]:
    """Return the mutants of a module, one of each kind after the other."""
    executed = {case: set(found.get(name, ())) for case, found in lines.items()}
    by_kind: dict[str, list[Mutant]] = defaultdict(list)
    tree = ast.parse(path.read_bytes())
    for number, site in enumerate(mutation.sites(tree, has_templates=mutation.is_template(name))):
        cases = tuple(case for case, found in executed.items() if site.line in found)
        if cases:
            about = (site.kind, site.line, site.before[:160], site.after[:160])
            by_kind[site.kind].append(Mutant(name, number, *about, cases))
    kinds = [*by_kind.values()]
    draws.shuffle(kinds)
    for kind in kinds:
        draws.shuffle(kind)
    rounds = itertools.zip_longest(*kinds)
    return [mutant for taken in rounds for mutant in taken if mutant is not None]
