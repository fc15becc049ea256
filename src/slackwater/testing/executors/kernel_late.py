"""Late rows on the kernels: who is late, by how much, and how many windows it missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.kernels.joins.batch import may_miss
from slackwater.kernels.types import arrow_type
from slackwater.kernels.windows.group_close import is_closed
from slackwater.model.node import Join, Node, Source
from slackwater.model.schema import Expr
from slackwater.model.window import TimeWindow
from slackwater.semantics import join_patterns
from slackwater.semantics.column_origin import column_origin
from slackwater.semantics.lateness import (
    enters,
    judged_by,
    late_by,
    late_row_error,
    reason,
)
from slackwater.semantics.local_time import instant_of
from slackwater.semantics.pattern_rules import closing, plain_column
from slackwater.semantics.patterns import Patterns
from slackwater.semantics.progress import SourceState, guard_limit
from slackwater.semantics.settings import BoundRule
from slackwater.semantics.window_chains import join_readers, window_readers
from slackwater.semantics.window_ids import wid_range
from slackwater.semantics.windows import missed
from slackwater.testing.executors.kernel_tables import plain
from slackwater.testing.executors.summaries import judged

Row = dict[str, Any]


class LateJudge:
    """The part of `KernelMachine` that judges rows; the rest of it holds what this needs."""

    outputs: Mapping[str, Node]
    nodes: Sequence[Node]
    settings: Mapping[str, Sequence[BoundRule]]
    states: dict[str, SourceState]
    before: Sequence[Mapping[str, int]]
    stated: Sequence[Patterns]

    def _judge(
        self, source: Source, rows: Sequence[Row], now: int | None
    ) -> tuple[list[Row], list[frozenset[str]]]:
        """The late rows, and for every row the columns on which it is kept out."""
        late, outs = [], []
        for row in rows:
            first = True
            out = []
            for s in self.settings[source.name]:
                time, limit = row.get(s.column), guard_limit(s, now)
                verdict = judged(self.states[source.name], s, row, now)
                why, bound = reason(verdict), judged_by(verdict, limit)
                if why is None:
                    continue
                if why == "late" and source.late == "raise":
                    raise late_row_error(source.name, s.column, row, bound)
                if not enters(verdict, source.late):
                    out.append(s.column)
                if first:
                    first = False
                    late.append(
                        {
                            **row,
                            "_late_reason": why,
                            "_late_by": late_by(time, verdict, limit),
                            "_late_bound": None if bound is None else _instant(s, bound),
                            "_late_windows": self._missed(source, s.column, row),
                        }
                    )
            outs.append(frozenset(out))
        return late, outs

    def _missed(self, source: Source, column: str, row: Row) -> int:
        time = row.get(column)
        if time is None:
            return 0
        total = 0
        for node, moved in window_readers(list(self.outputs.values()), source, column):
            child = next(i for i, n in enumerate(self.nodes) if n is node.child)
            bound = self.before[child][node.window.on]
            ticks = np.array([time + moved], np.int64)
            count = int(missed(ticks, bound, node.window)[0])
            if isinstance(node.window, TimeWindow) and self.stated[child]:
                found = closing(node, self.stated[child], bound)
                wids = np.arange(*wid_range(time + moved, node.window), dtype=np.int64)
                keys = [_column(source, row, node.child, k.expr, len(wids)) for k in node.keys]
                count = int(is_closed(node.window, found, keys, wids).sum())
            total += count
        for join, i, moved in join_readers(list(self.outputs.values()), source, column):
            total += self._may_miss(source, join, i, time + moved, row)
        return total

    def _may_miss(self, source: Source, node: Join, i: int, time: int, row: Row) -> bool:
        places = [next(n for n, m in enumerate(self.nodes) if m is c) for c in node.inputs]
        bounds = [self.before[p][on] for p, on in zip(places, node.on, strict=True)]
        child, kinds = node.inputs[i], [k.expr for k in node.keys[i]]
        keys = [
            pa.chunked_array([pa.array([time])])
            if plain_column(k) == node.on[i]
            else _column(source, row, child, k, 1)
            for k in kinds
        ]
        found = None
        if join_patterns.uses_patterns(node):
            found = join_patterns.closing(node, i, self.stated[places[i]], self.before[places[i]])
        late = may_miss(node.within, i, np.array([time], np.int64), bounds, found, keys)
        return bool(late[0])


def _instant(s: BoundRule, bound: int) -> int:
    return bound if s.zone is None else instant_of(bound, s.zone)


def _column(source: Source, row: Row, child: Node, key: Expr, count: int) -> pa.ChunkedArray:
    """A late row's key in an operator's input as often as asked; null where it is not just a column of the source."""
    name = column_origin(child, plain_column(key) or "", source)
    values = [None if name is None else row.get(name)] * count
    return pa.chunked_array([pa.array(values, arrow_type(plain(key.type)))])
