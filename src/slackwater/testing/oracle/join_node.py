"""Joins as operators of the oracle: rows of its inputs in, results and bounds out, by `oracle_join`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from slackwater.model.join import Condition
from slackwater.model.names import DELAYED
from slackwater.model.node import Join, Node, raw_name
from slackwater.model.schema import Field, Named
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.arrow import one_row
from slackwater.testing.oracle.columns import plain
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.join import (
    JoinOracle,
    JoinRow,
    Result,
    first_partner,
    last_partner,
    nothing_closed,
)
from slackwater.testing.oracle.types import Item, Row
from slackwater.testing.oracle.windows import time_of

Excluded = Callable[[Node, Mapping[str, Any]], bool]
"""Whether no later row of an operator has these values."""

NO_MEMORY = 1
"""Bytes in which no row can stay, so that every pair comes from a pass over the disk."""

AMPLE = 1 << 20
"""Bytes in which the few rows of a test all stay, so that none does."""


class JoinNode:
    """One join of a query. Memory matters to nothing but a column that says which pairs came from a pass.

    That is known here of joins in which either nothing or everything stays in memory.
    """

    def __init__(self, node: Join):
        self.node = node
        self.oracle = JoinOracle(
            node.within, node.how, self._holds if node.where else None, len(node.inputs)
        )

    def step(
        self,
        inputs: Sequence[Sequence[Item]],
        bounds: Sequence[int],
        excluded: Excluded | None = None,
    ) -> list[Row]:
        """Results of a step: new rows of each input, then the inputs' new bounds and what is excluded from then on."""
        rows = [[self._row(i, item.row) for item in side] for i, side in enumerate(inputs)]
        closed = nothing_closed
        if excluded is not None and self.node.memory is None:
            closed = partial(self._closed, excluded)
        done = self.oracle.step(rows, bounds, closed)
        return [self._result(r, self.node.outputs) for r in done]

    def unsure(self, i: int, time: int, row: Row) -> bool:
        """Whether a new row of input i, of which some columns are known, may have had a partner that was not kept."""
        keys = (plain(k.expr) for k in self.node.keys[i])
        key = tuple(time if name == self.node.on[i] else row.get(name or "") for name in keys)
        return self.oracle.may_miss(i, JoinRow(time, key))

    def _closed(self, excluded: Excluded, i: int, key: tuple[Any, ...], time: int | None) -> bool:
        """Whether no row of input i comes with that key, at that time if one is given."""
        row = {}
        if time is not None:
            row[self.node.on[i]] = time
        for k, value in zip(self.node.keys[i], key, strict=True):
            name = plain(k.expr)
            if name is not None:
                row[name] = value
        return excluded(self.node.inputs[i], row)

    def _row(self, i: int, row: Row) -> JoinRow:
        key = tuple(compile_expression(k.expr.sql)(row) for k in self.node.keys[i])
        return JoinRow(time_of(row, self.node.on[i]), key, row)

    def _result(self, rows: Result | Sequence[JoinRow], outputs: Sequence[Named]) -> Row:
        raw: dict[str, Any] = {
            raw_name(i, f.name): None if row is None else row.value[f.name]
            for i, row in enumerate(rows)
            for f in self.node.inputs[i].schema
        }
        raw[DELAYED] = self._delayed(rows) if self.node.marks_delayed else None
        return {o.name: compile_expression(o.expr.sql)(raw) for o in outputs}

    def _delayed(self, rows: Result | Sequence[JoinRow]) -> bool:
        """A row without a partner leaves when none can come any more: that is no delay."""
        memory = self.node.memory or 0
        if NO_MEMORY < memory < AMPLE:
            raise ValueError(f"which pairs a join in {memory} bytes delays is not known here")
        return memory <= NO_MEMORY and all(row is not None for row in rows)

    def _holds(self, rows: Sequence[JoinRow]) -> bool:
        where = self.node.where
        assert where is not None
        if isinstance(where, Condition):
            # One pair at a time: which others stand beside it must not matter.
            fields = [Field(c.name, c.expr.type) for c in self.node.tested]
            table = one_row(fields, self._result(rows, self.node.tested))
            args = [table.column(c).combine_chunks() for c in where.columns] or [table]
            return next(iter(where.function(*args))) in (pa.scalar(True), True)
        return compile_expression(where.sql)(self._result(rows, self.node.tested)) is True

    def bounds(self, bounds: Sequence[int]) -> dict[str, int]:
        """What later results promise, by time column.

        A later result has a row that is yet to come, at the earliest at its input's bound; or it is a row
        that waits for such a partner in vain.
        """
        node = self.node
        own = [self._own(i, bounds) for i in range(len(bounds))]
        if node.how in ("left_semi", "left_anti"):
            # A left row that is yet to come, or that waits.
            return {node.times[0].name: own[0]}
        newest = [
            max(b, *(self._first(i, j, b) for j in range(len(bounds)) if j != i))
            for i, b in enumerate(bounds)
            if b < END
        ]
        alone = {"inner": [], "left": own[:1], "right": own[1:], "full": own}[node.how]
        if self._nothing_pairs():
            newest = []
        found = dict(zip(node.time_names, own, strict=True))
        found = {t.name: found[t.name] for t in node.times if t.name in found}
        found[node.times[0].name] = min([*newest, *alone, END])
        found[node.times[-1].name] = min(own)
        return found

    def _own(self, i: int, bounds: Sequence[int]) -> int:
        """The earliest time that input i has in a later result."""
        if self._nothing_pairs():
            return bounds[i]
        others = [self._first(j, i, b) for j, b in enumerate(bounds) if j != i and b < END]
        return min([bounds[i], *others, END])

    def _first(self, i: int, j: int, bound: int) -> int:
        """The earliest partner in input j of a row of input i that comes at its bound."""
        if bound <= START:
            return START
        first = first_partner(self.node.within, i, j, bound)
        return END if first is None else first

    def _nothing_pairs(self) -> bool:
        inputs = range(len(self.node.inputs))
        return any(
            last_partner(self.node.within, i, j, 0) is None
            for i in inputs
            for j in inputs
            if i != j
        )
