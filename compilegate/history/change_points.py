"""The change points of a series, by Apache Otava.

Otava splits a series where the parts on either side differ most (E-divisive means), and keeps the
points that a t test confirms. https://otava.apache.org/docs/math, and Fleming et al. (2023),
https://doi.org/10.1145/3578244.3583719
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

#: How a person installs it. It requires one version of NumPy, which is rarely that of the models.
INSTALL = "pip install apache-otava, in an environment of its own (docs/history.md)"
#: As many nights as Otava looks at together, and what its t test must reach: its defaults. It
#: splits a series, and each part again, so a stricter test would not see a change that came back.
_WINDOW, _P_VALUE = 50, 0.001


class OtavaMissingError(Exception):
    """Apache Otava is not installed. The text says so, and how to install it."""


def require() -> None:
    """Refuse to look for change points where Otava is missing.

    Raises:
        OtavaMissingError: It cannot be imported.
    """
    try:
        import otava.analysis  # noqa: F401, PLC0415 (an optional dependency)
    except ImportError as error:
        raise OtavaMissingError(
            f"history needs Apache Otava, which cannot be imported ({error}): {INSTALL}"
        ) from error


def change_points(values: Sequence[float]) -> list[int]:
    """Return where a series changes: the indices of the first values after each change.

    Args:
        values: Positive numbers, in the order of time.
    """
    from otava.analysis import compute_change_points  # noqa: PLC0415 (an optional dependency)

    with warnings.catch_warnings():
        # Values that are all equal have no variance, which SciPy warns of.
        warnings.simplefilter("ignore", RuntimeWarning)
        found, _ = compute_change_points(list(values), _WINDOW, _P_VALUE, 0.0)
    return [int(point.index) for point in found]
