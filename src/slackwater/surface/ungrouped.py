"""``groupBy`` without a window: allowed where punctuation says when a group is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import AnalysisError
from slackwater.model.node import Aggregate, Join, Late, Node, Project, Sort, Source
from slackwater.model.schema import Named, column
from slackwater.semantics.bounds import topological
from slackwater.semantics.column_origin import column_origin
from slackwater.semantics.pattern_rules import passes_patterns, plain_column
from slackwater.semantics.settings import resolve_source

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream

PATTERN_TYPE = "map<string,struct<op:string,value:string>>"
_CALLED: dict[type[Node], str] = {Late: "late rows", Sort: "sort()"}


def completed_by_punctuation(stream: Stream) -> Stream:
    """The results of an aggregate over all time, without a window, once it is known that its groups end."""
    node = stream._node
    assert isinstance(node, Aggregate)
    check_groups_end(node)
    hidden = (node.times[0].name, "wid")
    kept = tuple(Named(f.name, column(f.name, f.type)) for f in node.schema if f.name not in hidden)
    schema = tuple(f for f in node.schema if f.name not in hidden)
    return stream._with(Project(schema, (), node, kept, ()))


def check_groups_end(node: Aggregate) -> None:
    """An error that says what is missing, unless patterns on group columns can reach the aggregate."""
    names = ", ".join(k.name for k in node.keys)
    if not node.keys:
        raise _unbounded(
            "an aggregate over all rows, without a window, never completes",
            'add a window: groupBy(sw.window("1 minute"))',
        )
    below = topological([node.child])
    # A join has no column that is just one of a stream, which is what the last of these errors says.
    blocking = next((n for n in below if not passes_patterns(n) and not isinstance(n, Join)), None)
    if blocking is not None:
        kind = _CALLED.get(type(blocking), type(blocking).__name__)
        raise _unbounded(
            f"groupBy({names}) without a window is completed by punctuation, which {kind} cannot pass on",
            'add a window: groupBy(..., sw.window("1 minute")), or group before it',
        )
    sources = [n for n in below if isinstance(n, Source)]
    for source in sources:
        if not any(s.patterns for s in resolve_source(source)):
            raise _unbounded(
                f"groupBy({names}) without a window completes a group only by punctuation, and stream "
                f"'{source.name}' has none on these columns",
                f'add a window: groupBy(..., sw.window("1 minute")), or punctuate {names}: '
                f'progress=sw.Punctuated("column") with a column of type {PATTERN_TYPE}',
            )
    usable = [k for k in node.keys if _reached(node.child, plain_column(k.expr), sources)]
    if not usable:
        raise _unbounded(
            f"groupBy({names}) without a window completes a group only by punctuation, but none of these is a "
            "column of every stream it comes from",
            "group by a column that the streams have and punctuate, or add a window",
        )


def _reached(node: Node, name: str | None, sources: list[Source]) -> bool:
    """Whether a column just is a column of every source, so that patterns on it arrive."""
    return name is not None and all(column_origin(node, name, s) is not None for s in sources)


def _unbounded(message: str, hint: str) -> AnalysisError:
    return AnalysisError("UNBOUNDED_STATE", message, hint=hint)
