"""What a source's durable state holds of a time column under a quality target: plain values, and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AdaptationState", "Arrived", "QualityState"]


@dataclass(frozen=True, slots=True)
class Arrived:
    """Rows of the latest batch, of a stream whose joins have a target for recall.

    ``late`` has pairs of bin and number, by rising bin: how far rows came behind the batch before. A bin is
    ``granularity`` ticks wide.
    """

    rows: int = 0
    granularity: int = 1
    late: tuple[tuple[int, int], ...] = ()

    def to_json(self) -> list[Any]:
        """Plain lists."""
        return [self.rows, self.granularity, [list(pair) for pair in self.late]]

    @classmethod
    def from_json(cls, json: Sequence[Any]) -> Arrived:
        """The inverse of `to_json`."""
        rows, granularity, late = json
        return cls(rows, granularity, tuple((at, number) for at, number in late))


@dataclass(frozen=True, slots=True)
class AdaptationState:
    """An `Adaptation` at rest, between batches.

    ``statistics`` is the JSON of `StreamStatistics`, ``states`` that of each `ConsumerState` by the consumer's name. Both
    stay JSON here, since every task of a batch gets them and few open them. ``edges`` are the newest times after
    recent batches, by partition of the source.
    """

    statistics: Mapping[str, Any]
    states: Mapping[str, Mapping[str, Any]]
    slack: int = 0
    first: int | None = None
    edges: Mapping[str, list[int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        return {
            "statistics": self.statistics,
            "states": self.states,
            "slack": self.slack,
            "first": self.first,
            "edges": self.edges,
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> AdaptationState:
        """The inverse of `to_json`."""
        return cls(json["statistics"], json["states"], json["slack"], json["first"], json["edges"])


@dataclass(frozen=True, slots=True)
class QualityState:
    """One time column under a target: the slack in force, and all that the next one depends on.

    ``slack`` is None as long as no delay is known. ``bound`` is that of a column whose rows are judged one by one.
    ``arrived`` and ``watch`` are of streams below a join with a target for recall; ``watch`` is how much longer than
    promised the join keeps rows, to see which results come late.
    """

    slack: int | None = None
    adaptation: AdaptationState | None = None
    bound: int | None = None
    arrived: Arrived | None = None
    watch: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts; parts that the column does not have are left out."""
        parts = {
            "adaptation": None if self.adaptation is None else self.adaptation.to_json(),
            "bound": self.bound,
            "arrived": None if self.arrived is None else self.arrived.to_json(),
            "watch": self.watch,
        }
        return {"slack": self.slack, **{k: v for k, v in parts.items() if v is not None}}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> QualityState:
        """The inverse of `to_json`."""
        adaptation, arrived = json.get("adaptation"), json.get("arrived")
        return cls(
            json["slack"],
            None if adaptation is None else AdaptationState.from_json(adaptation),
            json.get("bound"),
            None if arrived is None else Arrived.from_json(arrived),
            json.get("watch"),
        )
