"""Plants kinds of faults in real models under many settings: ``python -m tests.faults.matrix``.

The results are in ``docs/measurements/matrix.md``.
"""
