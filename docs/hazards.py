"""Write ``docs/hazards.md`` from the catalogues of hazards."""

from pathlib import Path

from compilegate.fixtures import (
    hazards_control,
    hazards_known_bugs,
    hazards_recompiling,
    hazards_side_effects,
    hazards_state,
    hazards_tensors,
)
from compilegate.zoo.hazard import Catalogue, Hazard

PAGE = Path(__file__).with_suffix(".md")
CATALOGUES = (
    hazards_side_effects.SIDE_EFFECTS,
    hazards_control.CONTROL,
    hazards_state.STATE,
    hazards_tensors.TENSORS,
    hazards_recompiling.RECOMPILING,
    hazards_known_bugs.KNOWN_BUGS,
)
SITE = "https://meta-pytorch.org/compile-graph-break-site/gb"
TEXT = """\
# Hazards: what breaks graphs or recompiles

<!-- Written by `python docs/hazards.py`: change `fixtures/hazards_*.py`, then run it again. -->

Each row is a small model and its rewrite. [test_hazards.py](../suites/test_hazards.py) compiles
both with the backend `aot_eager`:

    pytest suites/test_hazards.py -m cpu --tier standard --models 'hazards_*'

| PyTorch | what must hold |
| --- | --- |
| every version | answers and gradients are eager's, and `fullgraph=True` raises at a graph break |
| from 2.14 on | also: rewrites are captured; no more graph breaks or recompilations than below |

A later version may give a graph break another id. If a version captures a hazard, that is an
improvement, and passes. `compilegate observe` names it, and a comparison of two versions shows the
hazards that only one of them captures.

- *Graph breaks* are ids of PyTorch's registry in 2.14 or 2.15.
- *Captured whole* means that `fullgraph=True` captures the pattern, because it also captures
  scalars and sizes that depend on values.
- *Recompilations* counts those of one code object in two to four calls.
{tables}
## Add your own

A zoo file may list the patterns of your own code. Give both examples the same calls.
`breaks` has one id for each line that breaks, so an id may occur twice:

```python
{example}
```

    pytest suites/test_hazards.py -m cpu --zoo our_hazards.py --models our_hazards
"""
#: The zoo file in the page.
EXAMPLE = """\
import torch

from compilegate import Call, Catalogue, Example, model

OURS = Catalogue("Our own patterns")


@OURS.hazard(
    "progress line",
    pattern="`print` between operations",
    rewrite="print outside compiled code",
    breaks=("GB0059",),
)
def progress_line():
    def as_written(x):
        y = x.sin()
        print("half way")
        return y.cos()

    def rewritten(x):
        return x.sin().cos()

    calls = [Call((torch.randn(6),)) for _ in range(2)]
    return Example(as_written, calls=calls), Example(rewritten, calls=calls)


@model("our_hazards", settings="train-f32-default-auto", practices=("hazards",))
def our_hazards():
    return Example(torch.sin, inputs=lambda: (torch.randn(8),), hazards=OURS.hazards)"""


def page() -> str:
    """Return the page."""
    return TEXT.format(tables="".join(map(_table, CATALOGUES)), example=EXAMPLE)


def _table(catalogue: Catalogue) -> str:
    rows = "".join(map(_row, catalogue.hazards))
    names = "| hazard | pattern | graph breaks | recompilations | rewrite |"
    head = f"{names}\n| --- | --- | --- | --- | --- |\n"
    return f"\n## {catalogue.title}\n\n{head}{rows}"


def _row(hazard: Hazard) -> str:
    breaks = ", ".join(f"[{gb}]({SITE}/{gb.lower()}.html)" for gb in hazard.breaks) or "none"
    if hazard.breaks and hazard.whole:
        breaks += " (captured whole)"
    cells = (hazard.name, hazard.pattern, breaks, str(hazard.recompiles), hazard.rewrite)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
