"""A zoo file that makes every model of the session compile ten seconds longer.

On CPU, compilegate compiles only models of the shipped zoo in an empty cache, and a zoo file cannot
replace their builders. Its own model is there because a zoo file must define one.
"""

from compilegate import Example, model
from tests.faults.planting import install

install("compiles_longer", "everything")


@model("unselected", family="faults")
def unselected() -> Example:
    """Return a model that no test selects."""
    import torch

    return Example(torch.nn.Identity(), inputs=(torch.randn(2, 2),))
