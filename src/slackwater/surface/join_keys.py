"""The keys of a join on each side, cast as Spark's ``=`` casts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from slackwater.errors import AnalysisError
from slackwater.model.join import MixedKey
from slackwater.model.names import ours
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.spark_sql import quoted
from slackwater.surface.equalities import cast_as_compared, compared_type
from slackwater.surface.join_conditions import Key

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


def named_sides(streams: Sequence[Stream], names: Sequence[Key]) -> tuple[tuple[Named, ...], ...]:
    """Keys that are columns of these names, per stream."""
    return tuple(zip(*(_sides(streams, key) for key in names), strict=True)) or ((),) * len(streams)


def _sides(streams: Sequence[Stream], key: Key) -> list[Named]:
    """A key on each side, cast as Spark's ``=`` casts it."""
    types = types_of(streams, key)
    if len(set(types)) == 1:
        return [Named(n, column(n, t)) for n, t in zip(key, types, strict=True)]
    analyser = streams[0]._analyser
    kind = compared_type(analyser, types, "/".join(dict.fromkeys(key)))
    sides = []
    for s, name, own in zip(streams, key, types, strict=True):
        text = cast_as_compared(analyser, quoted(name), own, kind)
        (cast,) = s._analyser.columns(s._node.schema, [text], star_ok=False)
        sides.append(Named(name, column(name, own) if own == kind else cast.expr))
    return sides


def condition_sides(
    streams: Sequence[Stream], pairs: Sequence[tuple[str, str]]
) -> tuple[tuple[Named, ...], ...]:
    """Keys from pairs of SQL texts, each over the columns of its own stream."""
    sides: list[list[Named]] = [[], []]
    for n, pair in enumerate(pairs):
        for side, s, text in zip(sides, streams, pair, strict=True):
            (key,) = s._analyser.columns(s._node.schema, [text], star_ok=False)
            side.append(Named(f"_k{n}", key.expr))
    return tuple(tuple(side) for side in sides)


def types_of(streams: Sequence[Stream], key: Key) -> tuple[str, ...]:
    """The type that a key has in each stream."""
    return tuple(s._column_type(n) for s, n in zip(streams, key, strict=True))


def mixed_keys(
    streams: Sequence[Stream], keys: Sequence[Key], shared: Sequence[Key], fields: Sequence[Field]
) -> Iterator[MixedKey]:
    """The keys whose types differ between the streams."""
    for key in keys:
        types = types_of(streams, key)
        if len(set(types)) == 1:
            continue
        raws = [Field(f"c{i}", t) for i, t in enumerate(types)]
        widest = coalesced(streams[0], raws)
        shown = fields[shared.index(key)].type if key in shared else None
        yield MixedKey(
            "/".join(dict.fromkeys(key)), types, None if widest is None else widest.type, shown
        )


def coalesced(stream: Stream, raws: Sequence[Field]) -> Expr | None:
    """The first of several columns that is not null; None if Spark finds no type for it."""
    text = f"coalesce({', '.join(quoted(r.name) for r in raws)})"
    try:
        return stream._analyser.columns(raws, [text], star_ok=False)[0].expr
    except AnalysisError:
        return None


def with_computed(stream: Stream, keys: Sequence[Named]) -> tuple[Stream, tuple[Named, ...]]:
    """Keys that only Spark can evaluate become columns of a projection below."""
    if all(k.expr.duck is not None for k in keys):
        return stream, tuple(keys)
    own = [Named(f.name, column(f.name, f.type)) for f in stream._node.schema]
    made = [Named(ours(f"__key{i}"), k.expr) for i, k in enumerate(keys)]
    below = stream._project((*own, *made))
    return below, tuple(Named(m.name, column(m.name, m.expr.type)) for m in made)
