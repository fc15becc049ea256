"""How much the rows of a join yield, by how late they came.

The profile of an interval says for each bin of delay how many combinations rows of it were tried in, and how many results
they brought. A row that comes late even behind the slack is not tried, so nobody knows: it is given the most that any row
in order has had. That errs to the side of more results, thus of more slack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slackwater.semantics.quality.delays import Ints, added, bins

__all__ = ["Maps", "Profile"]


def _none() -> Ints:
    return np.zeros(0, np.int64)


class Maps(NamedTuple):
    """Combinations and results of an interval by bin of delay, and how many rows were in order."""

    cross: Ints
    joined: Ints
    rows: int

    @property
    def results(self) -> int:
        """About how many results there would have been without disorder."""
        return int(self.joined.sum())


@dataclass
class Profile:
    """The interval so far. ``most`` is what a row in order had at most, ``before`` the same of earlier intervals."""

    granularity: int
    cross: Ints = field(default_factory=_none)
    joined: Ints = field(default_factory=_none)
    late: Ints = field(default_factory=_none)
    rows: int = 0
    most: tuple[int, int] = (0, 0)
    before: tuple[int, int] = (0, 0)

    def record(self, delays: Ints, in_order: NDArray[np.bool_], cross: Ints, joined: Ints) -> None:
        """Rows that came to the join: their delays on arrival, and what those in order were good for."""
        if not len(delays):
            return
        where = bins(delays, self.granularity)
        first = where[in_order]
        self.cross = added(self.cross, _sums(first, cross[in_order]))
        self.joined = added(self.joined, _sums(first, joined[in_order]))
        self.late = added(self.late, np.bincount(where[~in_order]).astype(np.int64))
        self.rows += len(first)
        if len(first):
            most = int(cross[in_order].max()), int(joined[in_order].max())
            self.most = max(self.most[0], most[0]), max(self.most[1], most[1])

    def close(self) -> Maps:
        """The maps of the interval that ends here; the next one begins."""
        if self.rows:
            self.before = self.most
        cross, joined = (added(m, self.late * b) for m, b in zip((self.cross, self.joined), self.before, strict=True))  # fmt: skip
        maps = Maps(cross, joined, self.rows)
        self.cross, self.joined, self.late = _none(), _none(), _none()
        self.rows, self.most = 0, (0, 0)
        return maps

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        return {
            "granularity": self.granularity,
            "cross": self.cross.tolist(),
            "joined": self.joined.tolist(),
            "late": self.late.tolist(),
            "rows": self.rows,
            "most": list(self.most),
            "before": list(self.before),
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Profile:
        """The inverse of `to_json`."""
        cross, joined, late = (np.array(json[k], np.int64) for k in ("cross", "joined", "late"))
        most, before = ((int(json[k][0]), int(json[k][1])) for k in ("most", "before"))
        return cls(json["granularity"], cross, joined, late, json["rows"], most, before)


def _sums(where: Ints, values: Ints) -> Ints:
    """Sums of values per bin, in whole numbers."""
    out = np.zeros(int(where.max()) + 1 if len(where) else 0, np.int64)
    np.add.at(out, where, values)
    return out
