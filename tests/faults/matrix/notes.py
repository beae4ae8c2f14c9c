"""Why faults are missed: globs on ``KIND CASE``, and the mechanism."""

from __future__ import annotations

NOTES: dict[str, str] = {}
