"""What batches measured of an operator: sums over the batches of a checkpoint, and what it remembers of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.model.codec import LEAN, stored
from slackwater.semantics.quality.recall_state import RecallState
from slackwater.semantics.slack.waiting import Waiting


@dataclass(frozen=True)
class OperatorStatistics:
    """One operator: the most state it had, the ``results`` it gave and the ``seconds`` its tasks took.

    ``rows`` that came and ``partials`` (groups of complete panes, or windows) are those of aggregates over time windows,
    counted under ``plan``. ``recall`` is of joins with a target, ``waiting`` of stores of rows.
    """

    peak_rows: int = field(default=0, metadata=stored(name="peakRows"))
    peak_bytes: int = field(default=0, metadata=stored(name="peakBytes"))
    results: int = 0
    seconds: float = 0
    plan: str | None = field(default=None, metadata=LEAN)
    rows: int = field(default=0, metadata=LEAN)
    partials: int = field(default=0, metadata=LEAN)
    recall: RecallState | None = field(default=None, metadata=LEAN)
    waiting: Waiting | None = field(default=None, metadata=LEAN)


Statistics = Mapping[str, OperatorStatistics]
"""By operator."""
