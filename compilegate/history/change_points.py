"""The change points of a series, by Apache Otava.

Otava splits a series where the parts on either side differ most (E-divisive means), and keeps the
points that a t test confirms. https://otava.apache.org/docs/math, and Fleming et al. (2023),
https://doi.org/10.1145/3578244.3583719
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

#: How a person installs it.
INSTALL = "pip install 'compilegate[history]'"
#: As many nights as Otava looks at together.
_WINDOW = 50


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
            f"history needs Apache Otava, which cannot be imported ({error}): {INSTALL}, or "
            "pip install apache-otava"
        ) from error


def change_points(values: Sequence[float], p_value: float) -> list[int]:
    """Return where a series changes: the indices of the first values after each change.

    Args:
        values: Positive numbers, in the order of time.
        p_value: What a t test of the values before and after a point must reach.
    """
    from otava.analysis import compute_change_points  # noqa: PLC0415 (an optional dependency)

    with warnings.catch_warnings():
        # Values that are all equal have no variance, which SciPy warns of.
        warnings.simplefilter("ignore", RuntimeWarning)
        found, _ = compute_change_points(list(values), _WINDOW, p_value, 0.0)
    return [int(point.index) for point in found]
