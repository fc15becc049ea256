"""Aggregates that Spark does not know, dressed as ones that it does, so that Spark analyses their arguments.

Only Spark's analysis ever sees the dress: a constant text in it says what is meant.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slackwater.model.aggregate import Udaf

if TYPE_CHECKING:
    from pyspark.sql import Column

_HEAVY = "slackwater.heavyHitters:"
_UDAF = "slackwater.udaf:"
_udafs: dict[str, Udaf] = {}


def heavy_hitters(column: Column, share: float, error: float | None) -> Column:
    """An array of (value, count): the dress is a collect_list."""
    from pyspark.sql import functions as F

    pair = F.struct(column.alias("value"), F.lit(1).cast("bigint").alias("count"))
    mark = F.lit(_HEAVY + json.dumps([share, error])) == F.lit("")
    return F.collect_list(F.when(mark, None).otherwise(pair))


def user_defined(udaf: Udaf, columns: Sequence[Column]) -> Column:
    """A value of the user's type: the dress is an any_value."""
    from pyspark.sql import functions as F

    token = f"{udaf.name}#{len(_udafs)}"
    known = next((t for t, u in _udafs.items() if u == udaf), None)
    _udafs.setdefault(known or token, udaf)
    nothing = F.lit(None).cast(udaf.type)
    mark = F.lit(_UDAF + (known or token)) == F.lit("")
    return F.any_value(F.when(mark, nothing).when(F.struct(*columns).isNull(), nothing))


def marked(node: Any, kinds: Any) -> tuple[str, tuple[Any, ...], list[Any]] | None:
    """(function, params, argument nodes) if a dressed aggregate's argument ``node`` carries a mark.

    ``kinds`` tells the class names of a node.
    """
    if "CaseWhen" not in kinds(node):
        return None
    parts = _children(node)
    texts = _children(parts[0])
    if not texts or "Literal" not in kinds(texts[0]):
        return None
    text = str(texts[0].value())
    if text.startswith(_HEAVY):
        share, error = json.loads(text.removeprefix(_HEAVY))
        return "heavy_hitters", (share, error), [_children(parts[2])[1]]
    if text.startswith(_UDAF):
        fields = _children(_children(parts[2])[0])
        return "udaf", (_udafs[text.removeprefix(_UDAF)], False), fields[1::2]
    return None


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(i) for i in range(children.size())]
