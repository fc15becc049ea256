"""What a join with a target for recall remembers between batches, whichever way its slack is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.semantics.quality.controller import Controller
from slackwater.semantics.quality.recall_lateness import LateInterval

__all__ = ["RecallState"]

Interval = tuple[int, list[int], list[float]]
"""Its number, then rows and lost ones of each stream."""


@dataclass(frozen=True)
class RecallState:
    """The slack in force, and what the next one depends on.

    ``first`` is where the past begins. ``needed`` is the recall that the time to come needs, ``expected`` the one that the slack
    gives, ``estimated`` that of the period so far. A `MeasuredSlack` has ``lateness``, ``controller`` and ``reached``,
    a `KeptSlack` has ``past``; a slack by the model alone has none of them.
    """

    slack: int = 0
    first: int | None = None
    needed: float | None = None
    expected: float | None = None
    estimated: float | None = None
    reached: int | None = None
    lateness: Sequence[LateInterval] | None = None
    controller: Controller | None = None
    past: Sequence[Interval] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts; only the parts of its own way."""
        parts: dict[str, Any] = {
            "slack": self.slack,
            "first": self.first,
            "needed": self.needed,
            "expected": self.expected,
            "estimated": self.estimated,
        }
        if self.lateness is not None and self.controller is not None:
            parts["reached"] = self.reached
            parts["lateness"] = [list(interval) for interval in self.lateness]
            parts["controller"] = self.controller.to_json()
        if self.past is not None:
            parts["past"] = [list(interval) for interval in self.past]
        return parts

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> RecallState:
        """The inverse of `to_json`."""
        lateness, controller, past = (json.get(k) for k in ("lateness", "controller", "past"))
        return cls(
            json.get("slack", 0),
            json.get("first"),
            json.get("needed"),
            json.get("expected"),
            json.get("estimated"),
            json.get("reached"),
            None if lateness is None else tuple(LateInterval(*part) for part in lateness),
            None if controller is None else Controller.from_json(controller),
            None if past is None else tuple((k, list(rows), list(gone)) for k, rows, gone in past),
        )
