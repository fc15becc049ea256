"""Why a query has no result yet: what it has read, where its bounds are, and what completes the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.engine.driver.records import show
from slackwater.engine.plan.plan import Operator
from slackwater.model.node import Aggregate, Join, Node, Sort
from slackwater.model.spans import Words, in_words
from slackwater.model.window import (
    ByTuple,
    JointWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
    is_all_time,
)
from slackwater.semantics.bounds import END, START, propagate, topological
from slackwater.semantics.state_bounds import freed_by
from slackwater.semantics.windows import result_bound

if TYPE_CHECKING:
    from slackwater.engine.driver.handle import StreamingQuery
    from slackwater.engine.plan.plan import Plan


def why_nothing(query: StreamingQuery, seconds: float) -> str:
    """Some lines for people."""
    loop = query._loop
    lines = [f"no result within {in_words(round(seconds * 1_000_000))} after the first batch"]
    last = loop.last
    streams = {} if last is None else last.progress["streams"]
    if last is None or not any(s["totalRows"] for s in streams.values()):
        return "\n".join([*lines, "no rows were read: the source has none yet"])
    for name, stream in streams.items():
        lines.extend(_stream(name, stream))
    bounds = {
        name: {c: START if b["ticks"] is None else b["ticks"] for c, b in s["bounds"].items()}
        for name, s in streams.items()
    }
    waiting = [op for op in _in_order(loop.query.plan) if _holds(last.progress, op)]
    if not waiting:
        lines.append("no row is waiting: conditions and joins have let none through so far")
    else:
        lines.append(_completed_by(loop.query.plan, waiting[0], bounds))
    return "\n".join(lines)


def _stream(name: str, stream: dict[str, Any]) -> list[str]:
    rows = stream["totalRows"]
    lines = [f"stream {name}: {rows:,} row{'' if rows == 1 else 's'} read"]
    for column, b in stream["bounds"].items():
        late, odd = stream["totalLate"].get(column, 0), stream["nullTime"].get(column, 0)
        if b["bound"] is None:
            holder = f", it waits for {b['holder']}" if b["holder"] else ""
            text = f"no bound on {column} yet{holder}"
        else:
            text = f"the bound on {column} is {b['bound']}, the newest time {b['newest']}"
        lines[0] += f"; {text}"
        if late or odd:
            lines.append(f"  {late:,} of them late, {odd:,} without a time")
    return lines


def _in_order(plan: Plan) -> list[Operator]:
    return sorted(plan.operators, key=lambda op: op.level)


def _holds(record: dict[str, Any], operator: Operator) -> bool:
    figures = record["operators"].get(operator.id)
    return figures is not None and figures["state"]["rows"] > 0


def _completed_by(plan: Plan, operator: Operator, sources: dict[str, dict[str, int]]) -> str:
    """What lets the first result of an operator out."""
    node = operator.node
    nodes = topological([o.node for o in plan.outputs] + [node])
    known = dict(zip(map(id, nodes), propagate(nodes, sources), strict=True))
    child = node.children[0]
    bound = known[id(child)].get(operator.on, START)
    text = f"{operator.id} has rows; {_rule(node, operator.on)}"
    if _ends_by_itself(node) and START < bound < END:
        end = result_bound(bound, node.window) + 1  # type: ignore[attr-defined]
        time = next((t for t in child.times if t.name == operator.on), None)
        if time is not None:
            far = Words([time]).span(end - bound, operator.on)
            text += f": the next one ends at {show(time, end, plan.zone)}, {far} after the bound"
    return text


def _ends_by_itself(node: Node) -> bool:
    """Whether the ends of windows are known before their rows."""
    return (
        isinstance(node, Aggregate)
        and isinstance(node.window, TimeWindow | Landmark)
        and not is_all_time(node.window)
    )


def _rule(node: Node, on: str) -> str:
    if isinstance(node, Sort):
        return f"a row leaves when the bound on {on} has passed its time"
    if isinstance(node, Join) and node.how == "left_anti":
        return "a row leaves when no partner can come any more"
    if isinstance(node, Join):
        outer = (
            ""
            if node.how in ("inner", "left_semi")
            else "; rows without one leave when none can come any more"
        )
        return f"a pair leaves when the later of its two rows is there, and none has met a partner so far{outer}"
    if (
        isinstance(node, Aggregate)
        and not isinstance(node.window, JointWindow)
        and not is_all_time(node.window)
    ):
        window = node.window
        if isinstance(window, SessionWindow):
            gap = Words(node.children[0].times).span(window.gap, on)
            more = "more than " if window.closed else ""
            return f"a session is complete when the bound on {on} is {more}{gap} past its last row"
        if isinstance(window, RowWindow):
            return f"a window is complete when its {window.range:,} rows are there and the bound on {on} has passed them"
        if isinstance(window, ByTuple):
            return f"a window is complete when the bound on {on} has passed its row"
        return f"a window is complete when the bound on {on} reaches its end"
    return f"it keeps {freed_by(node)}"
