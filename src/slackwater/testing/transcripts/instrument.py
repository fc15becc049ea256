"""The test operator of a transcript that issues feedback at intervals: ``instrument: {output: {every: 2, on: [g]}}``.

It stands at an output and lets all rows pass. After every so many of them it ignores, from the next batch on, all results with
the values that the last of them has in the columns ``on``. Rows count in the order in which the script expects them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.model.node import Node
from slackwater.semantics.feedback import order
from slackwater.semantics.feedback.columns import Columns, moved
from slackwater.semantics.feedback.value import Feedback
from slackwater.semantics.patterns import Pattern, Test
from slackwater.testing.transcripts.windows import bad, listed


@dataclass(frozen=True)
class Instrument:
    """The operator at an output whose rows are those of ``node``."""

    node: Node
    every: int
    on: tuple[str, ...]
    zone: str

    @classmethod
    def of(cls, node: Node, spec: Mapping[Any, Any], zone: str) -> Instrument:
        """As a transcript writes it; YAML reads ``on`` as true."""
        known = {"on" if key is True else key: value for key, value in spec.items()}
        every = known.get("every")
        if set(known) != {"every", "on"} or not isinstance(every, int) or every < 1:
            raise bad(f"instrument {known!r} is not known", "write {every: 2, on: [g]}")
        return cls(node, every, tuple(listed(known["on"])), zone)

    def issued(self, batches: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[Feedback]]:
        """The feedback that is sent before each batch, if these are the rows that come out of them."""
        sent: list[list[Feedback]] = []
        waiting: list[Feedback] = []
        rows = 0
        for batch in batches:
            sent.append(waiting)
            waiting = []
            for row in batch:
                rows += 1
                if rows % self.every == 0:
                    waiting.append(self._about(row))
        return sent

    def _about(self, row: Mapping[str, Any]) -> Feedback:
        """Feedback that ignores the values of a row."""
        columns = Columns.of(self.node, self.zone)
        tested, record = [], Pattern(())
        for name in self.on:
            column, value = columns.column(name.split(".")), row[name]
            null = value is None
            test = Test((), True) if null else order.equal(value, column.type, self.zone)
            record &= Pattern.of({column.name: moved(test, -1) if column.ends else test})
            tested.append(column)
        return Feedback.of([record], tested)
