"""Joins as the group task sees them: one part of state per input, and one for what has found a partner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.batch import Batch
from slackwater.engine.deliver import ROWS, relation
from slackwater.engine.plan import Operator, finishing
from slackwater.engine.program import Arrival, Part, State, StateStep
from slackwater.kernels import join
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.types import arrow_schema, arrow_type
from slackwater.model.node import Join
from slackwater.semantics.join import needed_from, outer_inputs

MATCHED = "m"


class JoinProgram:
    """Rows of several inputs that match. Part ``"0"`` has the stored rows of input 0 and so on; ``"0m"`` the
    ids of those that found a partner after they were stored, where an outer join must know it.
    """

    def __init__(self, operator: Operator, buckets: tuple[int, int], batch: Batch):
        assert isinstance(operator.node, Join)
        self.node = operator.node
        self.batch = batch
        node = self.node
        count = len(node.keys[0])
        self.spec = join.JoinSpec(
            node.within,
            count,
            tuple(tuple(f.name for f in c.schema) for c in node.inputs),
            node.how,
        )
        self.outer = outer_inputs(node.how)
        self.schemas = [self._row_schema(i) for i in range(len(node.inputs))]
        self.parts: dict[str, Part] = {}
        for i, schema in enumerate(self.schemas):
            self.parts[str(i)] = Part("_time", join.state_schema(self.spec, i, schema))
            if i in self.outer:
                self.parts[f"{i}{MATCHED}"] = Part("_time", join.MATCHED_SCHEMA)

    def _row_schema(self, i: int) -> pa.Schema:
        keys = [
            pa.field(f"_k{n}", arrow_type(k.expr.type)) for n, k in enumerate(self.node.keys[i])
        ]
        fields = [pa.field("_time", pa.int64()), *keys, pa.field("_bucket", pa.int16())]
        return pa.schema([*arrow_schema(self.node.inputs[i].schema), *fields])

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return needed_from(self.node.within, int(part.removesuffix(MATCHED)), bounds)

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        new = [
            pa.concat_tables([s.empty_table(), *(t.select(s.names).cast(s) for t in a.tables)])
            for s, a in zip(self.schemas, inputs, strict=True)
        ]
        old, after = [a.old for a in inputs], [a.new for a in inputs]
        done = join.step(
            self.spec,
            new,
            [_reader(state, str(i)) for i in range(len(inputs))],
            old,
            after,
            self.predicate,
            [
                _reader(state, f"{i}{MATCHED}") if i in self.outer else _nothing
                for i in range(len(inputs))
            ],
            # A bucket is in one task of a batch, so this is unique where it is compared.
            self.batch.id << 32,
        )
        late = sum(
            int(np.count_nonzero(t["_time"].to_numpy() < needed_from(self.node.within, i, old)))
            for i, t in enumerate(new)
        )
        keep: dict[str, pa.Table] = {}

        def output() -> Iterator[pa.Table]:
            yield from done.output
            kept = done.finish()
            for i, table in enumerate(kept.keep):
                keep[str(i)] = table
            for i in self.outer:
                keep[f"{i}{MATCHED}"] = kept.matched[i]

        return StateStep(output(), keep, late)

    @property
    def predicate(self) -> Callable[[pa.Table], pa.BooleanArray] | None:
        """The further condition of the match, on chunks of joined columns."""
        return self._holds if self.node.where is not None else None

    def _holds(self, rows: pa.Table) -> pa.BooleanArray:
        where = self.node.where
        assert where is not None
        sql = relation((finishing(self.node),), f"SELECT * FROM {ROWS}")
        sql = f"SELECT coalesce({where.duck}, false) AS m FROM ({sql})"
        connection = connect(self.batch.settings.memory)
        found = sql_to_arrow(connection, sql, {ROWS: rows})["m"]
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        return rows.filter(pc.greater_equal(rows["_time"], first))


def _reader(state: State, part: str) -> Callable[[int, int], pa.Table]:
    return lambda low, high: state(low, high, part)


def _nothing(low: int, high: int) -> pa.Table:
    return join.MATCHED_SCHEMA.empty_table()
