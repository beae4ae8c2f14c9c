"""A zoo file without models: where it is given, every model takes ten seconds longer to compile.

On CPU only models of the shipped zoo are compiled in an empty cache, and their builders cannot be
replaced.
"""

from tests.faults.planting import install

install("compiles_longer", "everything")
