"""What the tasks of a batch tell of a stream's quality: small, JSON, and the same in whatever order it is merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.semantics.quality.late_sums import LateSums
from slackwater.semantics.quality.late_sums import merged as merged_late
from slackwater.semantics.quality.measure import Tally
from slackwater.semantics.quality.measure import merged as merged_tallies
from slackwater.semantics.quality.moments import Moments
from slackwater.semantics.quality.moments import added as added_moments
from slackwater.semantics.quality.state import QualityState
from slackwater.semantics.quality.statistics import Bag, merged_bags

MAX_GROUPS = 256
"""Groups in the sample by which the error per group is judged: those whose key has the least hash."""


@dataclass(frozen=True)
class GatheredRows:
    """A batch's rows as one consumer sees them: by window, their moments (all rows, those that reach it, then one per
    column of values), the moments of a sample of groups by the hash of their key, and how late rows are for windows.
    """

    tally: Tally = field(default_factory=dict)
    moments: tuple[Moments, ...] = ()
    groups: Mapping[int, tuple[Moments, ...]] = field(default_factory=dict)
    late: LateSums = field(default_factory=LateSums)

    def to_json(self) -> list[Any]:
        """Plain lists."""
        tally = [[w, r, m] for w, (r, m) in sorted(self.tally.items())]
        groups = [[h, [list(m) for m in ms]] for h, ms in sorted(self.groups.items())]
        return [tally, [list(m) for m in self.moments], groups, self.late.to_json()]

    @classmethod
    def from_json(cls, json: Sequence[Any]) -> GatheredRows:
        """The inverse of `to_json`."""
        return cls(
            {w: (r, m) for w, r, m in json[0]},
            tuple(Moments(*m) for m in json[1]),
            {h: tuple(Moments(*m) for m in ms) for h, ms in json[2]},
            LateSums.from_json(json[3]),
        )


def merged_rows(parts: Sequence[GatheredRows]) -> GatheredRows:
    """One consumer's rows of several tasks."""
    known = [p for p in parts if p.moments]
    columns = len(known[0].moments) if known else 0
    moments = tuple(added_moments(p.moments[i] for p in known) for i in range(columns))
    by_group: dict[int, list[tuple[Moments, ...]]] = {}
    for part in parts:
        for key, ms in part.groups.items():
            by_group.setdefault(key, []).append(ms)
    groups = {
        key: tuple(
            added_moments(ms[i] for ms in by_group[key]) for i in range(len(by_group[key][0]))
        )
        for key in sorted(by_group)[:MAX_GROUPS]
    }
    tallies = merged_tallies(p.tally for p in parts)
    return GatheredRows(tallies, moments, groups, merged_late(p.late for p in parts))


@dataclass(frozen=True)
class Gathered:
    """One column of a source in one batch: its delays, and each consumer's rows.

    ``judged`` is what the one task of a stream with strict lateness leaves: the adaptation's state and the bound.
    """

    bag: Bag | None = None
    consumers: tuple[GatheredRows, ...] = ()
    judged: QualityState | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        return {
            "bag": None if self.bag is None else self.bag.to_json(),
            "consumers": [c.to_json() for c in self.consumers],
            "judged": None if self.judged is None else self.judged.to_json(),
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Gathered:
        """The inverse of `to_json`."""
        return cls(
            None if json["bag"] is None else Bag.from_json(json["bag"]),
            tuple(GatheredRows.from_json(c) for c in json["consumers"]),
            None if json["judged"] is None else QualityState.from_json(json["judged"]),
        )


def merged(parts: Iterable[Gathered]) -> Gathered:
    """One of several tasks'; only one of them can have judged rows one by one."""
    parts = list(parts)
    count = max((len(p.consumers) for p in parts), default=0)
    consumers = [
        merged_rows([p.consumers[i] for p in parts if i < len(p.consumers)]) for i in range(count)
    ]
    return Gathered(
        merged_bags(p.bag for p in parts if p.bag is not None),
        tuple(consumers),
        next((p.judged for p in parts if p.judged is not None), None),
    )
