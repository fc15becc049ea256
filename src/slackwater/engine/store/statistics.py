"""What batches measured of an operator: sums over the batches of a checkpoint, and what it remembers of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slackwater.model.codec import from_json, to_json
from slackwater.semantics.quality.recall_state import RecallState
from slackwater.semantics.slack.waiting import Waiting


@dataclass(frozen=True)
class OperatorStatistics:
    """One operator: the most state it had, the ``results`` it gave and the ``seconds`` its tasks took.

    ``rows`` that came and ``partials`` (groups of complete panes, or windows) are those of aggregates over time windows,
    counted under ``plan``. ``recall`` is of joins with a target, ``waiting`` of stores of rows.
    """

    peak_rows: int = 0
    peak_bytes: int = 0
    results: int = 0
    seconds: float = 0
    plan: str | None = None
    rows: int = 0
    partials: int = 0
    recall: RecallState | None = None
    waiting: Waiting | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts; what an operator of this kind does not have is left out."""
        parts: dict[str, Any] = {
            "peakRows": self.peak_rows,
            "peakBytes": self.peak_bytes,
            "results": self.results,
            "seconds": self.seconds,
        }
        if self.plan is not None:
            parts.update(plan=self.plan, rows=self.rows, partials=self.partials)
        if self.recall is not None:
            parts["recall"] = self.recall.to_json()
        if self.waiting is not None:
            parts["waiting"] = to_json(self.waiting)
        return parts

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> OperatorStatistics:
        """The inverse of `to_json`; older versions measured less."""
        recall, waiting = json.get("recall"), json.get("waiting")
        return cls(
            json.get("peakRows", 0),
            json.get("peakBytes", 0),
            json.get("results", 0),
            json.get("seconds", 0),
            json.get("plan"),
            json.get("rows", 0),
            json.get("partials", 0),
            None if recall is None else RecallState.from_json(recall),
            None if waiting is None else from_json(Waiting, waiting),
        )


Statistics = Mapping[str, OperatorStatistics]
"""By operator."""
