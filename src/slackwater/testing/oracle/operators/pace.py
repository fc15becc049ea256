"""Pace, by definition: rows that are too far behind the newest time that was known when the step began."""

from __future__ import annotations

from slackwater.errors import AnalysisError
from slackwater.model.node import (
    Aggregate,
    Dedup,
    Filter,
    Node,
    Outpaced,
    Pace,
    Project,
    Sort,
    Source,
    Union,
)
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.local import greatest_shown
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.operators.common import Coming
from slackwater.testing.oracle.run import Limits, Run
from slackwater.testing.oracle.types import Item
from slackwater.testing.oracle.windows import time_of

excluded = common.same_excluded
shifts = common.same_shifts
input_row = common.same_row


def bounds(node: Pace, run: Run) -> dict[str, int]:
    (below,) = run.below(node)
    if type(node) is Outpaced:
        return dict(below)
    mark = _mark(node, run, run.steps + 1, run.steps + 1)
    oldest = START if mark is None else mark - node.limit
    return {
        t.name: max(below[t.name], oldest) if t.name == node.on else below[t.name]
        for t in node.times
    }


def items(node: Pace, run: Run) -> list[Item]:
    # The clock is known before the rows of a step are, and the newest time is not.
    mark = _mark(node, run, run.steps, run.steps + 1)
    found = []
    for item in run.arriving(node.child):
        time = time_of(item.row, node.on)
        gone = mark is not None and time is not None and mark - time > node.limit
        if gone == (type(node) is Outpaced):
            found.append(item)
    return found


def may_come(node: Pace, limits: Limits, ask: Coming) -> bool:
    own = all(ask.bound(node, name) < end for name, end in limits.items())
    return own and ask.below(node.child, limits)


def _mark(node: Pace, run: Run, steps: int, readings: int) -> int | None:
    """The newest time that is known after so many steps, and so many readings of the clock."""
    known = [t for s in range(steps + 1) if (t := _newest(node.child, node.on, run, s)) is not None]
    if node.clock:
        (clock, *_) = (h.clock for h in run.histories.values())
        for now in clock[:readings]:
            if now is not None:
                local = node.time.is_local
                known.append(
                    greatest_shown(now, node.zone) if local else now // (node.time.unit or 1)
                )
    return max(known, default=None)


def _newest(node: Node, on: str, run: Run, steps: int) -> int | None:
    """The newest plausible time of an operator's rows after so many steps; rows that are left out tell it, too."""
    match node:
        case Source():
            at = [t.name for t in node.times].index(on)
            history, time, policy = run.histories[node.name], node.times[at], node.policies[at]
            plausible = [
                a.row[on]
                for a in history.arrivals
                if a.step < steps
                and not a.punctuation
                and history.plausible(a.row.get(on), time, policy, a.step)
            ]
            return max(plausible, default=None)
        case Filter() | Dedup() | Pace():
            return _newest(node.child, on, run, steps)
        case Project():
            (name, ticks) = next((old, by) for new, old, by in node.origins if new == on)
            below = _newest(node.child, name, run, steps)
            return None if below is None else below + ticks
        case Union():
            at = [t.name for t in node.times].index(on)
            each = [_newest(c, c.times[at].name, run, steps) for c in node.inputs]
            return max((t for t in each if t is not None), default=None)
        case Sort():
            below = _newest(node.child, on, run, steps)
            past = _bound(node.child, on, run, steps)
            return None if below is None or past == START else min(below, past - 1)
        case Aggregate(window=TimeWindow() as w):
            below = _newest(node.child, w.on, run, steps)
            past = _bound(node.child, w.on, run, steps)
            if below is None or past == START:
                return None
            wid = (below - w.origin) // w.slide - 1
            while w.origin + (wid + 2) * w.slide - w.range <= below:
                wid += 1  # the next window holds the newest row as well
            while w.origin + (wid + 1) * w.slide > past and past < END:
                wid -= 1
            return w.origin + (wid + 1) * w.slide - 1
    raise AnalysisError(
        "NOT_IN_ORACLE",
        f"the oracle does not know the newest time of a {type(node).__name__}",
        hint="keep the pace over other operators",
    )


def _bound(node: Node, on: str, run: Run, steps: int) -> int:
    return run.bounds[id(node)][steps - 1][on] if steps else START
