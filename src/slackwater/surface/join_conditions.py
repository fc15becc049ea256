"""A join's condition: what the names in it stand for, and which of its parts are keys, a band, or neither."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from slackwater.engine.analysis.conjuncts import Conjunct
from slackwater.engine.analysis.stream_columns import Owner, Parts
from slackwater.errors import AnalysisError
from slackwater.kernels.translate.distances import Pair, Read, TimeOf
from slackwater.model.join import Band
from slackwater.model.schema import Expr, Field
from slackwater.semantics.distance import Distance
from slackwater.surface.equalities import key_pair
from slackwater.surface.progressing import window_range
from slackwater.surface.stream_columns import foreign, sightings

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream

Key = tuple[str, ...]
"""One column name per input."""

_NAME = re.compile(r"\s*(\w+|`(?:[^`]|``)+`)\s*")


_SHOWN = 120
"""Letters of a condition that an error shows."""


def not_inside(test: Expr, hint: str) -> AnalysisError:
    """The error of a condition that the column engine cannot evaluate."""
    shown = test.sql if len(test.sql) <= _SHOWN else f"{test.sql[:_SHOWN]}…"
    return AnalysisError(
        "JOIN_CONDITION", f"where={shown} cannot be evaluated inside a join: {test.why}", hint=hint
    )


class Shown(Protocol):
    """The columns of a join's result."""

    fields: tuple[Field, ...]

    def name_of(self, input: int, name: str) -> str:
        """What a column of an input is called in the result."""

    @property
    def owners(self) -> dict[str, tuple[int, str]]:
        """For each column of the result the input it comes from, and its name there."""


def _is_name(text: str, streams: Sequence[Stream]) -> bool:
    """Whether a text in ``on=`` names a column of all streams, or was meant to.

    Any other text is a condition: also a single word, if it is a boolean of one stream.
    """
    if all(any(s._same(text, c) for c in s.columns) for s in streams):
        return True
    if _NAME.fullmatch(text) is None:
        return False
    booleans = (f.name for s in streams for f in s._node.schema if f.type == "boolean")
    return not any(streams[0]._same(text.strip(" `"), b) for b in booleans)


def named_keys(on: Any, streams: Sequence[Stream]) -> tuple[list[Key], list[Key], list[Any]]:
    """Keys by name, those of them that are one column in the result, and conditions yet to be taken apart."""
    if on is None or (isinstance(on, (list, tuple)) and not on):
        return [], [], []
    keys: list[Key] = []
    shared: list[Key] = []
    conditions: list[Any] = []
    for item in on if isinstance(on, list) else [on]:
        if isinstance(item, str) and _is_name(item, streams):
            keys.append(tuple(s._column(item) for s in streams))
            shared.append(keys[-1])
        elif isinstance(item, tuple) and len(item) == len(streams):
            keys.append(tuple(s._column(n) for s, n in zip(streams, item, strict=True)))
        elif isinstance(item, tuple):
            raise AnalysisError(
                "BAD_JOIN",
                f"on: {item!r} is not possible here",
                hint=f"give one column name per stream, {len(streams)} in all",
            )
        else:
            conditions.append(item)
    return keys, shared, conditions


@dataclass(frozen=True)
class Conditions:
    """A condition taken apart: texts of ``keys``, one for each side, and what is left.

    Without ``within=`` the ``band`` is what the condition says of the ``times``, one of each side; None if it says nothing.
    """

    keys: tuple[tuple[str, str], ...]
    rest: str | None
    band: Band | None = None
    times: Pair | None = None


class ConditionReader:
    """Reads conditions over the columns of two streams and of their join's result."""

    def __init__(self, streams: Sequence[Stream], shown: Shown):
        self._streams = streams
        self._shown = shown
        self._analyser = streams[0]._analyser

    def placed(self, expression: Any) -> Any:
        """An expression with the names of the result in it; text becomes a Column."""
        return self._analyser.placed(self._shown.fields, expression, self._place)

    def read(
        self,
        conditions: Sequence[Any],
        names: Sequence[Key],
        times: Sequence[str] | None,
        has_band: bool,
        can_wait: bool = False,
    ) -> Conditions:
        """Take conditions apart; ``names`` are keys given by name. With ``has_band`` none is looked for.

        With ``can_wait`` there need be none: rows wait until punctuation, or the end of a stream, says that no partner comes.
        """
        columns = {} if has_band else self._times(times)
        parts = [p for c in conditions for p in self._conjuncts(c, bool(columns))]
        reads = [self._analyser.distances(p, columns) if columns else Read() for p in parts]
        pairs = [key_pair(p, self._shown.owners) for p in parts]
        pair, band = (
            (None, None) if has_band else self._band(reads, names, times, columns, can_wait)
        )
        rest = [
            p.sql
            for p, r, key in zip(parts, reads, pairs, strict=True)
            if key is None and not (r.whole and all(own == pair for own, _ in r.distances))
        ]
        keys = tuple(p for p in pairs if p is not None)
        if conditions and not keys and not names and band is None and not has_band:
            raise AnalysisError(
                "JOIN_CONDITION",
                "on= has no equality between a column of the one stream and one of the other",
                hint='give column names, pairs such as [("id", "ref")], an equality of two columns, or within=sw.band(...)',
            )
        return Conditions(keys, " AND ".join(f"({r})" for r in rest) or None, band, pair)

    def _conjuncts(self, condition: Any, fold: bool) -> list[Conjunct]:
        owners = self._shown.owners
        below = {f.name: owners[f.name.lower()][1] for f in self._shown.fields}
        placed = self.placed(condition)
        return self._analyser.conjuncts(self._shown.fields, placed, below, fold=fold)

    # --- names ------------------------------------------------------------------------------------

    def _place(self, parts: Parts) -> Parts | None:
        """What a name is called in the result: ``a.k`` by the name of a stream, or a stream's own column."""
        owner = Owner.of(parts[0])
        if owner is not None:
            return (self._owned(owner, parts[1]), *parts[2:])
        shown = next((f for f in self._shown.fields if self._same(f.name, parts[0])), None)
        # A column of the result comes first, as it did before streams' names were read.
        if shown is not None and (len(parts) == 1 or shown.type.startswith(("struct<", "map<"))):
            return None
        if len(parts) > 1:
            return self._qualified(parts)
        sides = [i for i, s in enumerate(self._streams) if self._column(s, parts[0]) is not None]
        if len(sides) > 1:
            names = [self._shown.name_of(i, self._column(self._streams[i], parts[0]) or "") for i in sides]  # fmt: skip
            raise AnalysisError(
                "AMBIGUOUS_COLUMN",
                f"column '{parts[0]}' is in several of the streams",
                hint=f"write {' or '.join(self._spelled(i, parts[0]) for i in sides)}; "
                f"the result has {', '.join(names)}",
                name=parts[0],
            )
        return None

    def _qualified(self, parts: Parts) -> Parts | None:
        sides = [
            i
            for i, s in enumerate(self._streams)
            if s._label is not None and s._label.lower() == parts[0].lower()
        ]
        if len(sides) != 1:
            return None
        stream = self._streams[sides[0]]
        name = self._column(stream, parts[1])
        if name is None:
            raise AnalysisError(
                "COLUMN_NOT_FOUND",
                f"stream '{stream._label}' has no column '{parts[1]}'",
                hint=f"use one of: {', '.join(stream.columns)}",
                name=parts[1],
            )
        return (self._shown.name_of(sides[0], name), *parts[2:])

    def _owned(self, owner: Owner, name: str) -> str:
        """The result's name of a column that belongs to a stream: to one side, or to what a side was made of."""
        sides = [
            (i, s) for i, stream in enumerate(self._streams) for s in sightings(stream, owner, name)
        ]
        best = [(i, s) for i, s in sides if not s.alias] or sides
        names = list(dict.fromkeys(self._shown.name_of(i, s.name) for i, s in best))
        if len(names) != 1:
            raise foreign(owner, name, self._streams, names)
        return names[0]

    def _column(self, stream: Stream, name: str) -> str | None:
        return next((c for c in stream.columns if stream._same(c, name)), None)

    def _same(self, one: str, other: str) -> bool:
        return self._streams[0]._same(one, other)

    def _spelled(self, side: int, name: str) -> str:
        """A column as a condition can name it."""
        labels = [s._label for s in self._streams]
        if labels[side] is None or labels.count(labels[side]) > 1:
            return self._shown.name_of(side, self._column(self._streams[side], name) or name)
        return f"{labels[side]}.{name}"

    # --- the band ---------------------------------------------------------------------------------

    def _times(self, chosen: Sequence[str] | None) -> dict[str, TimeOf]:
        """The times of both sides by their names in the result; the greatest of several columns has none."""
        every: dict[str, TimeOf] = {}
        shared = set()
        for i, s in enumerate(self._streams):
            for t in s._node.times if chosen is None else [s._time(chosen[i], "a join")]:
                if t.parts:
                    continue
                name = self._shown.name_of(i, t.name)
                shared |= {name} & set(every)
                if t.kind == "window":
                    every[name] = TimeOf(i, t.name, "window", window_range(s._node), t.type)
                else:
                    every[name] = TimeOf(i, t.name, s._column_type(t.name))
        # A key by name is one column for both sides: it does not tell which of the two is meant.
        return {n: t for n, t in every.items() if n not in shared}

    def _band(
        self,
        reads: Sequence[Read],
        names: Sequence[Key],
        times: Sequence[str] | None,
        columns: Mapping[str, TimeOf],
        can_wait: bool,
    ) -> tuple[Pair, Band] | tuple[None, None]:
        """The two times that are compared, and how near they must be; none if they are not, and need not be."""
        progressing = [
            [t.name for t in (s._node.times if times is None else [s._time(times[i], "a join")])]
            for i, s in enumerate(self._streams)
        ]
        allowed: dict[Pair, Distance] = {}
        for key in names:
            if key[0] in progressing[0] and key[1] in progressing[1]:
                allowed[key[0], key[1]] = Distance(0, 0)
        for pair, distance in (d for r in reads for d in r.distances):
            allowed[pair] = allowed.get(pair, Distance()).narrowed(distance)
        if not allowed and can_wait and not any(r.why for r in reads):
            return None, None
        if not allowed:
            raise self._no_band(reads, columns)
        # The first times of both streams before others, and what is enough before what is not.
        order = [(a, b) for a in progressing[0] for b in progressing[1] if (a, b) in allowed]
        pair = next((p for p in order if allowed[p].is_closed), order[0])
        distance = allowed[pair]
        if not distance.is_closed:
            raise self._open_band(pair, distance, reads)
        if distance.is_empty:
            one, other = self._both(pair)
            raise AnalysisError(
                "EMPTY_BAND",
                f"no two rows can match: the comparisons of {other} with {one} exclude each other",
                hint=f"check their signs: a right row that is older has {other} < {one}",
            )
        return pair, distance.band

    def _both(self, pair: Pair) -> tuple[str, str]:
        spelled = []
        for i, name in enumerate(pair):
            time = next(t for t in self._streams[i]._node.times if t.name == name)
            spelled.append(self._spelled(i, name) + (".end" if time.kind == "window" else ""))
        return spelled[0], spelled[1]

    def _span(self, pair: Pair) -> str:
        """An example of a span on a time."""
        time = next(t for t in self._streams[0]._node.times if t.name == pair[0])
        return "10" if time.is_integer else "INTERVAL 1 MINUTE"

    def _no_band(self, reads: Sequence[Read], columns: Mapping[str, TimeOf]) -> AnalysisError:
        sides = [next((t.name for t in columns.values() if t.side == i), None) for i in (0, 1)]
        example = "a condition on a time of each side"
        is_integer = any(t.is_integer for t in self._streams[0]._node.times[:1])
        length = "10" if is_integer else '"1 minute"'
        if sides[0] is not None and sides[1] is not None:
            one, other = self._both((sides[0], sides[1]))
            span = self._span((sides[0], sides[1]))
            example = f"{other} BETWEEN {one} - {span} AND {one} + {span}"
        return AnalysisError(
            "BAD_JOIN",
            "nothing says how far apart in time partners may be: there is no within=, and on= has no comparison that "
            f"limits the distance of the two times{_reasons(reads)}",
            hint=f"add {example} to the condition in on=, or give within=sw.band(before={length}, after={length}) "
            f"or within=sw.window({length}); or have both streams punctuated on the keys, "
            "progress=sw.Punctuated(...) with patterns: then rows may be at any distance",
        )

    def _open_band(self, pair: Pair, distance: Distance, reads: Sequence[Read]) -> AnalysisError:
        one, other = self._both(pair)
        span = self._span(pair)
        kept, free = (0, 1) if distance.most is None else (1, 0)
        missing = f"{other} <= {one} + {span}" if kept == 0 else f"{other} >= {one} - {span}"
        called = [s._label or ("left", "right")[i] for i, s in enumerate(self._streams)]
        return AnalysisError(
            "UNBOUNDED_STATE",
            f"rows of '{called[kept]}' would be kept for ever: the condition lets a row of '{called[free]}' match them "
            f"however much newer it is{_reasons(reads)}",
            hint=f"add a comparison such as {missing}",
            stream=called[kept],
        )


def _reasons(reads: Sequence[Read]) -> str:
    """Why comparisons that look like a band are none."""
    return "".join(f"; {sql} does not count: {why}" for r in reads for sql, why in r.why)
