"""Late rows of a source, by definition."""

from __future__ import annotations

from slackwater.model.node import Late
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item

excluded = common.not_excluded
may_come = common.may_come_by_bounds
shifts = common.no_shifts
input_row = common.no_row


def bounds(node: Late, run: Run) -> dict[str, int]:
    ended = run.histories[node.source.name].ended
    return {t.name: END if ended else START for t in node.times}


def items(node: Late, run: Run) -> list[Item]:
    rows = run.late_rows[node.source.name]
    return [Item({f.name: r.get(f.name) for f in node.schema}, run.steps) for r in rows]
