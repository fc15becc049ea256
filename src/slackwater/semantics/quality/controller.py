"""A controller that steers slack by measured quality: the alternative to the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

AGGREGATE_WEIGHTS = (0.2, 4.0)
JOIN_WEIGHTS = (0.6, 0.8)


@dataclass
class Controller:
    """Slack is ``alpha`` times the largest delay seen. ``alpha`` grows with the shortfall of quality and with its
    growth; there is no integral part, which would wind up while quality is above target without any slack.
    """

    up: float = AGGREGATE_WEIGHTS[0]
    ud: float = AGGREGATE_WEIGHTS[1]
    alpha: float = 0.0
    error: float | None = None

    def step(self, wanted: float, measured: float) -> float:
        """One measurement; returns the new ``alpha`` in [0, 1].

        >>> c = Controller()
        >>> [round(c.step(.95, q), 2) for q in (1.0, .90, .95)]
        [0.0, 0.41, 0.21]
        """
        error = wanted - measured
        change = 0.0 if self.error is None else error - self.error
        self.alpha = max(0.0, min(self.alpha + self.up * error + self.ud * change, 1.0))
        self.error = error
        return self.alpha

    def slack(self, largest: int) -> int:
        """The slack while the largest delay seen is ``largest``."""
        return round(self.alpha * largest)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"up": self.up, "ud": self.ud, "alpha": self.alpha, "error": self.error}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Controller:
        """The inverse of `to_json`."""
        return cls(**json)
