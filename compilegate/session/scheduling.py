"""How cases are spread over xdist workers: all cases of a model go to one.

``xdist_group`` marks are not honoured together with session-scoped parameters, so the scope is read
from the node id.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

from compilegate.records.case import case_id_of, model_of


class ModelScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Load scheduling whose unit is the model, so that a child's imports and weights are shared."""

    def _split_scope(self, nodeid: str) -> str:
        return model_of(case_id_of(nodeid)) or nodeid
