"""``groupBy`` without a window: punctuation says when a group is complete; `check` says whether it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.model.node import Aggregate, Project
from slackwater.model.schema import Named, column

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


def completed_by_punctuation(stream: Stream) -> Stream:
    """The results of an aggregate over all time, without a window."""
    node = stream._node
    assert isinstance(node, Aggregate)
    hidden = (node.times[0].name, "wid")
    kept = tuple(Named(f.name, column(f.name, f.type)) for f in node.schema if f.name not in hidden)
    schema = tuple(f for f in node.schema if f.name not in hidden)
    return stream._with(Project(schema, (), node, kept, ()))
