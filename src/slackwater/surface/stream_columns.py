"""``a.k`` and ``a["k"]``: columns that belong to a stream, and where else in a query they may be used.

A column of one stream may be used in another that was made of it, as long as it is there unchanged and under a name
that is known: after ``where`` all of them, after ``select`` those that were kept, after a join those of both sides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.stream_columns import Owner, Parts, column_of
from slackwater.errors import AnalysisError
from slackwater.model.node import Aggregate, Node, Project
from slackwater.model.schema import Named
from slackwater.model.spark_sql import name_parts
from slackwater.semantics.pattern_rules import plain_column
from slackwater.surface.unsupported_names import ON_STREAMS, is_theirs, unsupported

if TYPE_CHECKING:
    from pyspark.sql import Column

    from slackwater.surface.stream import Stream

_numbers = count(1)
_QUALIFIED = re.compile(r"`?(\w+)`?\s*\.")


@dataclass(frozen=True)
class Origin:
    """A stream that another one was made of; ``columns`` are those that are still there, with their names there.

    Under an ``alias`` the columns are those of another stream: the stream itself is preferred, where both are.
    """

    stream: Stream
    columns: Mapping[str, str]
    alias: bool = False


@dataclass(frozen=True)
class Sighting:
    """What a column of a stream is called in another; ``alias`` if an alias is between the two."""

    name: str
    alias: bool = False


def owner_number() -> int:
    """A number for a new stream."""
    return next(_numbers)


def kept(node: Node, names: Sequence[str]) -> dict[str, str]:
    """Those of the names that are the same columns above an operator as below it."""
    if isinstance(node, Project):
        same = _unchanged(node.columns)
    elif isinstance(node, Aggregate):
        same = _unchanged(node.keys)
    else:
        same = {f.name for f in node.schema}
    return {n: n for n in names if n in same}


def _unchanged(columns: Sequence[Named]) -> set[str]:
    return {c.name for c in columns if plain_column(c.expr) == c.name}


def sightings(stream: Stream, owner: Owner, name: str) -> list[Sighting]:
    """What the owner's column is called in a stream: the best ones alone, those without an alias in between."""
    if stream._number == owner.number:
        return [Sighting(name)]
    every: dict[Sighting, None] = {}
    for origin in stream._origins:
        for below in sightings(origin.stream, owner, name):
            here = origin.columns.get(below.name)
            if here is not None:
                every[Sighting(here, below.alias or origin.alias)] = None
    return [s for s in every if not s.alias] or list(every)


def labelled(stream: Stream) -> dict[str, list[Stream]]:
    """The streams that this one was made of, by what they are called; behind an alias the old names are gone."""
    every: dict[str, list[Stream]] = {}
    below = [o.stream for o in stream._origins if not o.alias]
    if not below and stream._label:
        return {stream._label.lower(): [stream]}
    for origin in below:
        for label, streams in labelled(origin).items():
            every.setdefault(label, []).extend(streams)
    return every


def speaks_of(stream: Stream, expression: Any) -> bool:
    """Whether an expression may name a stream that this one was made of, as in ``a.k``."""
    text = expression if isinstance(expression, str) else _text(expression)
    if "." not in text:
        return False
    names = {m[1].lower() for m in _QUALIFIED.finditer(text)}
    return bool(names & labelled(stream).keys())


def _text(expression: Any) -> str:
    return str(expression._jc.toString()) if hasattr(expression, "_jc") else ""


def _labelled_owner(stream: Stream, parts: Parts) -> Owner | None:
    """The stream that ``a`` in ``a.k`` is; a column of that name comes first."""
    if len(parts) < 2 or any(stream._same(c, parts[0]) for c in stream.columns):
        return None
    streams = labelled(stream).get(parts[0].lower(), [])
    return streams[0]._owner if len(streams) == 1 else None


def place_in(stream: Stream, parts: Parts) -> Parts | None:
    """What a name in an expression over a stream's rows stands for."""
    owner = Owner.of(parts[0])
    if owner is None and (owner := _labelled_owner(stream, parts)) is not None:
        (whose,) = labelled(stream)[parts[0].lower()]
        own = next((c for c in whose.columns if whose._same(c, parts[1])), parts[1])
        parts = (parts[0], own, *parts[2:])
    if owner is None:
        return None
    names = [s.name for s in sightings(stream, owner, parts[1])]
    if len(names) != 1:
        raise foreign(owner, parts[1], [stream], names)
    return (names[0], *parts[2:])


def foreign(
    owner: Owner, name: str, streams: Sequence[Stream], names: Sequence[str] = ()
) -> AnalysisError:
    """The error of a column that belongs to none of the streams here, or to several."""
    whose = f"'{name}' of stream '{owner.label}'" if owner.label else f"'{name}' of another stream"
    if names:
        return AnalysisError(
            "AMBIGUOUS_COLUMN",
            f"column {whose} is in here several times: {', '.join(names)}",
            hint="use one of these names, or give the streams an alias before they are joined",
            name=name,
        )
    have = "; ".join(
        f"{_called(s)} has {', '.join(s.columns)}" if len(streams) > 1 else ", ".join(s.columns)
        for s in streams
    )
    where = "is no column of this stream" if len(streams) == 1 else "is no column of either stream"
    return AnalysisError(
        "FOREIGN_COLUMN",
        f"column {whose} {where}",
        hint=f'take a column of the stream itself, such as s["{streams[0].columns[0]}"]; there are: {have}',
        name=name,
        stream=owner.label,
    )


def _called(stream: Stream) -> str:
    return f"'{stream._owner.label}'" if stream._owner.label else "the other"


def by_key(stream: Stream, key: Any) -> Any:
    """``stream[key]``: a column, or as in PySpark a selection or a filter."""
    from pyspark.sql import Column

    if isinstance(key, Column):
        return stream.where(key)
    if isinstance(key, (list, tuple)):
        return stream.select(*key)
    if isinstance(key, int) and not isinstance(key, bool):
        return column_of(stream._owner, stream.columns[key])
    if isinstance(key, str):
        return _column(stream, key)
    raise TypeError(
        f"a stream takes the name or number of a column, a condition or a list, not a {type(key).__name__}"
    )


def _column(stream: Stream, name: str) -> Column:
    parts = name_parts(name)
    # As in Spark a dot asks for a field. A column with a dot in its name may do without backquotes if nothing has fields.
    if name in stream.columns and not _has_fields(stream, parts[0]):
        parts = (name,)
    return column_of(stream._owner, stream._column(parts[0]), *parts[1:])


def _has_fields(stream: Stream, name: str) -> bool:
    own = next((f for f in stream._node.schema if stream._same(f.name, name)), None)
    return own is not None and own.type.startswith(("struct<", "map<", "array<struct<"))


def attribute(stream: Stream, name: str) -> Column:
    """``stream.name``, where the stream has no method of that name."""
    if hasattr(type(stream), name):
        # An error inside a property would be hidden by ours: let it be seen.
        return object.__getattribute__(stream, name)  # type: ignore[no-any-return]
    # Before a stream is complete nothing is known of its columns: copy and pickle ask.
    if name.startswith("__") or "_number" not in vars(stream):
        raise AttributeError(f"a stream has no attribute '{name}'", name=name, obj=stream)
    columns = stream.columns
    there = next((c for c in columns if stream._same(c, name)), None)
    if is_theirs(name):
        also = "" if there is None else f'the column of that name is stream["{there}"]'
        raise unsupported("a stream", name, ON_STREAMS, also)
    if there is None:
        raise AttributeError(
            f"a stream has no method or column '{name}'; its columns are: {', '.join(columns)}",
            name=name,
            obj=stream,
        )
    return column_of(stream._owner, there)
