"""Which segments of a relation executors may keep from batch to batch: said by the driver, from what tasks asked for.

It is known as long as the process runs, and no longer. What executors keep goes with them, so that a start finds free room; which
segments are kept changes no result.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from slackwater.engine.paths.relation_files import file_of
from slackwater.engine.paths.reports import Reads
from slackwater.semantics.segments import Epoch, Frequencies, may_stay


class Residents:
    """The segments of one relation that may stay in each executor, in ``room`` bytes."""

    def __init__(self, room: int, epoch: Epoch):
        self.names: frozenset[str] = frozenset()
        self.fresh: frozenset[str] = frozenset()
        """Those that tasks of the last batch were not told of."""
        self._room = room
        self._frequencies = Frequencies(epoch)
        self._sizes: dict[str, int] = {}

    def only(self, files: Set[str]) -> None:
        """Forget segments of other files than these, which are gone: their room is free."""
        self.names = frozenset(n for n in self.names if file_of(n) in files)
        self.fresh &= self.names
        self._frequencies.keep({n for n in self._frequencies.values if file_of(n) in files})

    def batch(self, reads: Reads, now: int | None) -> None:
        """Take in what the tasks of a batch asked for."""
        self._frequencies.count({n: rows for n, (rows, _) in reads.asked.items()}, reads.rows, now)
        self._sizes.update({n: size for n, (_, size) in reads.asked.items()})
        told = self.names
        self.names = may_stay(
            self._frequencies.values, self._sizes, told, reads.asked.keys(), self._room
        )
        self.fresh = self.names - told
        known = self.names | self._frequencies.values.keys()
        self._sizes = {n: size for n, size in self._sizes.items() if n in known}

    @property
    def figures(self) -> Mapping[str, Any]:
        """What the progress record says of them."""
        return {
            "resident": len(self.names),
            "residentBytes": sum(self._sizes[n] for n in self.names),
        }
