"""Spreads cases over xdist's workers: all cases of a model run on one worker.

xdist does not honour ``xdist_group`` marks together with session-scoped parameters. The scheduler
therefore reads the model from the node id.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

from compilegate.records.case import case_id_of, model_of


class ModelScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Load scheduling by model, so that the cases of a model share imports and weights."""

    def _split_scope(self, nodeid: str) -> str:
        return model_of(case_id_of(nodeid)) or nodeid
