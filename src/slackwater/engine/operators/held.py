"""Rows that wait for a partner in a relation, as the group task sees them.

In a batch the try comes first, then the new bound: rows that waited are held against the version of the batch, if it is
another than that of the batch before, and what then is too old leaves without a partner. The ledger says how many rows wait and the least
of their times, so that a batch which can change nothing reads no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.operators.keyed_rows import keyed_rows, keyed_schema
from slackwater.engine.operators.kinds import AfterBatch, Kind, added
from slackwater.engine.operators.program import (
    MAIN,
    Arrival,
    GroupContext,
    Part,
    Program,
    State,
    StateStep,
)
from slackwater.engine.operators.relation_rows import joined, left_alone, marked
from slackwater.engine.paths.relation_tables import relation_tables
from slackwater.engine.plan.plan import Operator
from slackwater.engine.plan.steps import LookupStep
from slackwater.engine.store.statistics import OperatorStatistics
from slackwater.kernels.types import arrow_schema
from slackwater.model.names import BUCKET, ROWS, TIME
from slackwater.model.node import Held
from slackwater.model.schema import Named, column
from slackwater.model.spans import words_of
from slackwater.semantics.limits import END, LEAST, MOST
from slackwater.semantics.operators.held import waited_out

_CARRIED = (Named(TIME, column(TIME, "bigint")), Named(BUCKET, column(BUCKET, "smallint")))


class HeldProgram(Program):
    """Rows wait until a version has a partner for them, or until their time is over."""

    def __init__(self, operator: Operator, context: GroupContext):
        assert isinstance(operator.node, Held)
        self.node = operator.node
        self.context = context
        self.ledger = context.ledger(operator) or {"rows": 0, "least": END}
        self.row_schema = arrow_schema(self.node.child.schema)
        self.state_schema = keyed_schema(self.row_schema)
        self.parts = {MAIN: Part(TIME, self.state_schema)}

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        # A row leaves by a step alone: it comes out then, and how long rows wait may change on a restart.
        return LEAST

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (arrived,) = inputs
        new = keyed_rows(arrived.tables, self.row_schema)
        over = waited_out(self.node, arrived.new)
        waiting = bool(self.ledger["rows"])
        tried = waiting and self._has_new_version
        read = tried or (waiting and self.ledger["least"] < over)
        old = state(LEAST, MOST) if read else self.state_schema.empty_table()
        outputs = []
        if tried and old.num_rows:
            outputs.append(self._met(old))
            old = self._unmet(old)
        rows = pa.concat_tables([old, new])
        is_over = pc.less(rows[TIME], over)
        leaving, keep = rows.filter(is_over), rows.filter(pc.invert(is_over))
        outputs.append(self._alone(leaving))
        count = keep.num_rows + (0 if read else self.ledger["rows"])
        least = END if read else self.ledger["least"]
        if keep.num_rows:
            least = min(least, pc.min(keep[TIME]).as_py())
        met = sum(t.num_rows for t in outputs[:-1])
        ledger = {"rows": count, "least": least, "met": met, "unmatched": leaving.num_rows}
        return StateStep(
            pa.concat_tables(outputs),
            keep,
            rewritten=frozenset([MAIN]) if read else frozenset(),
            ledger=ledger,
            hold=(least,),
        )

    @property
    def _has_new_version(self) -> bool:
        at = self.context.batch.relations[self.node.relation.name]
        return at.version != at.before

    def _met(self, rows: pa.Table) -> pa.Table:
        """The rows that have partners in the version of the batch, with these."""
        made = self._looked_up(LookupStep.of(self.node), rows)
        return marked(self.node, made, True)

    def _unmet(self, rows: pa.Table) -> pa.Table:
        """The rows that have none."""
        step = LookupStep.of(self.node, "left_anti")
        for extra in _CARRIED:
            step = step.carrying(extra)
        return self._looked_up(step, rows).select(self.state_schema.names).cast(self.state_schema)

    def _alone(self, rows: pa.Table) -> pa.Table:
        """Rows that leave without a partner."""
        return left_alone(self.node, rows, self.context.batch.settings.memory)

    def _looked_up(self, step: LookupStep, rows: pa.Table) -> pa.Table:
        tables = relation_tables(self.context.batch, (step,), {ROWS: rows}, self.context.relations)
        return joined(step, rows, tables, self.context.batch.settings.memory)


class HeldKind(Kind):
    """Rows that wait for a partner in a relation."""

    def program(self, operator: Operator, context: GroupContext) -> Program:
        return HeldProgram(operator, context)

    def regroup(self, ledgers: Sequence[Any], count: int) -> list[Any]:
        """Which rows a group gets is not known before they are read, so each must look."""
        known = [led for led in ledgers if led is not None]
        rows = sum(led["rows"] for led in known)
        least = min((led["least"] for led in known), default=END)
        return [{"rows": rows, "least": least} for _ in range(count)]

    def owes(self, ledger: Any) -> bool:
        # Only a new version or a bound can change anything; who decides about the batch knows of both.
        return False

    def figures(self, after: AfterBatch) -> dict[str, Any]:
        ledgers = [r.ledger for r in after.reports if r.ledger is not None]
        if not ledgers:
            return {}
        total = added([{n: led[n] for n in ("rows", "met", "unmatched")} for led in ledgers])
        node = after.operator.node
        assert isinstance(node, Held)
        return {
            "relation": {
                "name": node.relation.name,
                "heldRows": total["rows"],
                "met": total["met"],
                "unmatched": total["unmatched"],
            }
        }

    def described(self, operator: Operator, known: OperatorStatistics) -> str:
        node = operator.node
        assert isinstance(node, Held)
        long = words_of(node).span(node.hold, node.on)
        return f"rows without a partner wait for one in relation '{node.relation.name}', for {long} of {node.on}"


def held_rows(ledgers: Sequence[Any]) -> int:
    """How many rows wait."""
    return sum(led["rows"] for led in ledgers if led is not None)
