"""Where the values of a column come from: which column of a source it just is."""

from __future__ import annotations

from slackwater.model.node import Node, Source
from slackwater.semantics.operators.registry import RULES


def column_origin(node: Node, column: str, source: Source) -> str | None:
    """The column of ``source`` that a node's column just is, or None."""
    copies = RULES[type(node)].copies(node, column)
    if isinstance(node, Source):
        return column if node.name == source.name and node.field(column) else None
    origins = (column_origin(child, name, source) for child, name in copies)
    return next((origin for origin in origins if origin is not None), None)
