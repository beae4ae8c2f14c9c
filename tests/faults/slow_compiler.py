"""A zoo file without models that makes every model of the session compile ten seconds longer.

On CPU, compilegate compiles only models of the shipped zoo in an empty cache, and a zoo file cannot
replace their builders.
"""

from tests.faults.planting import install

install("compiles_longer", "everything")
