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
# Hazards: what breaks graphs or compiles again

<!-- Written by `python docs/hazards.py`: change `fixtures/hazards_*.py`, then run it again. -->

Each row is a small model and its rewrite. [test_hazards.py](../suites/test_hazards.py) compiles
both with the backend `aot_eager`. In every version of PyTorch it judges answers and gradients, and
that `fullgraph=True` raises where it meets a break. From 2.14 on, a rewrite must be captured, and
more breaks or recompilations than in the table fail. A later version may give a break another id.
A hazard that a version captures is an improvement, and passes: `compilegate observe` names it, and
a comparison of two versions shows each hazard that one of them captures and the other does not.

    pytest suites/test_hazards.py -m cpu --tier standard --models 'hazards_*'

*Breaks* are ids of PyTorch's registry in 2.14 or 2.15. *Captured whole* means that `fullgraph=True`
captures the pattern: it also captures scalars and sizes that depend on values. *Again* is how often
one code object is compiled again in two to four calls.
{tables}
## Add your own

A zoo file may list the patterns of your own code. Both examples need the same calls.
`breaks` names each line that breaks, so an id may occur twice:

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
    rewrite="print outside of compiled code",
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
    head = "| hazard | pattern | breaks | again | rewrite |\n| --- | --- | --- | --- | --- |\n"
    return f"\n## {catalogue.title}\n\n{head}{rows}"


def _row(hazard: Hazard) -> str:
    breaks = ", ".join(f"[{gb}]({SITE}/{gb.lower()}.html)" for gb in hazard.breaks) or "none"
    if hazard.breaks and hazard.whole:
        breaks += " (captured whole)"
    cells = (hazard.name, hazard.pattern, breaks, str(hazard.recompiles), hazard.rewrite)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
