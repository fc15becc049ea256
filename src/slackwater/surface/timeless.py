"""Streams whose time was left out: they go to a sink as they are, and what needs a time says where it went."""

from __future__ import annotations

from slackwater.errors import AnalysisError
from slackwater.model.join import Anytime
from slackwater.model.node import Aggregate, Filter, Join, Node, Project, Union
from slackwater.model.unnamed_time import left_out
from slackwater.model.window import is_all_time

_SHOWN = 6


def no_time(node: Node, asking: str) -> AnalysisError:
    """The error of an operator that needs a time, over a node that has none."""
    if stands_still(node):
        return AnalysisError(
            "NO_PROGRESS",
            f"{asking} needs a time, and results of a join at any distance in time have none that progresses",
            hint="give the join within=sw.band(...), or group by its keys without a window",
        )
    dropped = left_out(node)
    if dropped is None or _completes_groups(dropped):
        return AnalysisError(
            "NO_PROGRESS",
            f"{asking} needs a time, and results of a groupBy without a window have none",
            hint='add a window to the groupBy: sw.window("1 minute")',
        )
    have = ", ".join(t.name for t in dropped.child.times)
    changed = [c for c in dropped.columns if c.name in {t.name for t in dropped.child.times}]
    # A select and a drop give the same node: the columns that are left say which one it was.
    how = f"the columns {_names(dropped)} leave it out"
    if changed:
        shown = "; ".join(f"{c.name} is {c.expr.sql}" for c in changed)
        how = f"the columns {_names(dropped)} change it: {shown}, which does not progress"
    return AnalysisError(
        "NO_PROGRESS",
        f"{asking} needs a time, and {how}; in front of that the stream progresses on {have}",
        hint="keep that column there as it is, renamed, or moved by a constant interval; "
        "only rows that go to a sink may do without",
        columns=have,
        select=_names(dropped),
    )


def stands_still(node: Node) -> bool:
    """Whether the times of a node never progress before the end: those of rows that join at any distance in time."""
    if isinstance(node, Join):
        return isinstance(node.within, Anytime)
    through = isinstance(node, (Filter, Project, Union))
    return through and bool(node.times) and any(stands_still(c) for c in node.children)


def _completes_groups(node: Project) -> bool:
    return isinstance(node.child, Aggregate) and is_all_time(node.child.window)


def _names(node: Project) -> str:
    names = [c.name for c in node.columns]
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
