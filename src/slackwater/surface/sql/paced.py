"""``sw.paced``: a union that keeps a pace, as one clause of text.

``a UNION b WITH PACE ON MAX(a.ts, b.ts) 1 MINUTE``; ``SELECT * FROM`` may stand in front.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slackwater.errors import AnalysisError
from slackwater.surface.sql.cursor import Cursor, shown
from slackwater.surface.sql.durations import duration
from slackwater.surface.sql.text import Span, SqlText, meant
from slackwater.surface.sql.tokens import tokens_of
from slackwater.surface.sql.tree import Word
from slackwater.surface.sql.variables import Variables

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


def paced(text: str, streams: Mapping[str, Stream], *, clock: bool = False) -> Stream:
    """The union of streams, without rows that are too far behind the newest of any of them.

    Parameters
    ----------
    text
        ``"a UNION b WITH PACE ON MAX(a.ts, b.ts) 1 MINUTE"``: the streams, the time of each, and how far behind a row may be.
        Columns are united by position, so the times stand in the same place.
    streams
        The streams by name.
    clock
        As of ``Stream.pace``.

    Examples
    --------
    >>> live = paced(
    ...     "clean UNION repaired WITH PACE ON MAX(clean.ts, repaired.ts) 5 MINUTES",
    ...     {"clean": clean, "repaired": repaired},
    ... )  # doctest: +SKIP
    """
    if not isinstance(text, str):
        raise AnalysisError(
            "BAD_OPTION",
            f"sw.paced takes a text, not a {type(text).__name__}",
            hint='give it as "a UNION b WITH PACE ON MAX(a.ts, b.ts) 1 MINUTE"',
        )
    return _Reader(text, streams).paced(clock)


def _known(streams: Mapping[str, Stream]) -> dict[str, Stream]:
    """The streams by name, in small letters: SQL does not tell names apart by letter case."""
    from slackwater.surface.stream import Stream

    named = isinstance(streams, Mapping) and all(isinstance(n, str) for n in streams)
    if not named:
        raise AnalysisError(
            "BAD_OPTION",
            f"streams={streams!r} is no dict of streams by name",
            hint='give it as {"a": clean, "b": repaired}',
        )
    known: dict[str, Stream] = {}
    for name, stream in streams.items():
        if not isinstance(stream, Stream):
            raise AnalysisError(
                "NOT_A_STREAM",
                f"streams[{name!r}] is a {type(stream).__name__}, not a stream",
                hint="make it with sw.stream(...): a batch table or a DataFrame is none",
            )
        if name.lower() in known:
            raise AnalysisError(
                "DUPLICATE_NAME",
                f"streams has {name!r} twice, in different letter case, and SQL takes them for one name",
                hint="give each stream a name of its own",
                name=name,
            )
        known[name.lower()] = stream
    return known


class _Reader:
    def __init__(self, text: str, streams: Mapping[str, Stream]):
        self.text = SqlText(text, "sw.paced")
        self.cursor = Cursor(self.text, tokens_of(self.text), Variables(self.text, None))
        self.streams = _known(streams)
        self.names = list(streams)

    def paced(self, clock: bool) -> Stream:
        """The stream of the whole text."""
        united = self._union()
        self.cursor.expect("WITH", "PACE", "ON", "MAX")
        times = self._times()
        limit = duration(self.cursor, "how far behind a row may be")
        if self.cursor.peek().kind != "end":
            raise self.cursor.expected("the end of the text")
        whole = self._place(united, times)
        try:
            return whole.pace(limit.value, on=self._column(*times[0]), clock=clock)
        except AnalysisError as error:
            raise error.at(self.text.place(limit.span)) from None

    def _union(self) -> list[Word]:
        if self.cursor.take("SELECT"):
            self.cursor.expect_sign("*", "SELECT")
            self.cursor.expect("FROM")
        names = [self._stream("the name of a stream")]
        while self.cursor.take("UNION"):
            self.cursor.take("ALL")
            names.append(self._stream("the name of a stream"))
            if names[-1].name.lower() in [n.name.lower() for n in names[:-1]]:
                raise self.text.error(
                    names[-1].span, "DUPLICATE_NAME", f"stream '{names[-1].name}' is united with itself",
                    hint="name each stream once",
                )  # fmt: skip
        return names

    def _stream(self, what: str) -> Word:
        word = self.cursor.expect_name(what)
        if word.name.lower() not in self.streams:
            raise self.text.error(
                word.span, "STREAM_NOT_FOUND", f"there is no stream '{word.name}'",
                hint=meant(word.name, self.names, "streams= has"),
            )  # fmt: skip
        return word

    def _times(self) -> list[tuple[Word, Word]]:
        self.cursor.expect_sign("(", "MAX")
        found = []
        while True:
            name = self._stream("the time of a stream, as in a.ts")
            self.cursor.expect_sign(".", f"'{name.name}'")
            found.append((name, self.cursor.expect_name("a column")))
            if not self.cursor.take_sign(","):
                break
        self.cursor.expect_sign(")", shown(self.cursor.last()))
        return found

    def _place(self, united: list[Word], times: list[tuple[Word, Word]]) -> Stream:
        """The union, once it is known that its times stand in one place."""
        wanted = {n.name.lower(): n for n in united}
        for name, column in times:
            if wanted.pop(name.name.lower(), None) is None:
                raise self.text.error(
                    name.span, "BAD_PACE", f"MAX has '{name.name}.{column.name}', which is no stream of the union, or has it twice",
                    hint="give one time of each stream that is united",
                )  # fmt: skip
        if wanted:
            missing = next(iter(wanted.values()))
            raise self.text.error(
                missing.span, "BAD_PACE", f"MAX has no time of stream '{missing.name}'",
                hint=f"add it: MAX(..., {missing.name}.ts)",
            )  # fmt: skip
        named = {n.name.lower(): (n, c) for n, c in times}
        first, column = named[united[0].name.lower()]
        place, kind = self._at(first, column)
        for word in united[1:]:
            name, own = named[word.name.lower()]
            at, other = self._at(name, own)
            if other != kind:
                raise self._differ(
                    name,
                    own,
                    f"is {other}, and '{first.name}.{column.name}' is {kind}",
                    "bring them to one type",
                )
            if at != place:
                text = f"is column {at + 1}, and '{first.name}.{column.name}' is column {place + 1}"
                raise self._differ(
                    name, own, text, "select the columns in one order: a union goes by position"
                )
        whole = self.streams[united[0].name.lower()]
        for word in united[1:]:
            try:
                whole = whole.union(self.streams[word.name.lower()])
            except AnalysisError as error:
                raise error.at(self.text.place(word.span)) from None
        times.sort(key=lambda t: t[0].name.lower() != united[0].name.lower())
        return whole

    def _differ(self, name: Word, column: Word, what: str, hint: str) -> AnalysisError:
        span = Span(name.span.start, column.span.end)
        return self.text.error(span, "BAD_PACE", f"'{name.name}.{column.name}' {what}", hint=hint)

    def _at(self, name: Word, column: Word) -> tuple[int, str]:
        """The place and the type of a stream's time."""
        stream = self.streams[name.name.lower()]
        times = [t.lower() for t in stream.timeColumns]
        if column.name.lower() not in times:
            raise self.text.error(
                column.span, "NOT_PROGRESSING", f"'{column.name}' is not a progressing column of '{name.name}'",
                hint=meant(column.name, stream.timeColumns),
            )  # fmt: skip
        columns = [c.lower() for c in stream.columns]
        if column.name.lower() not in columns:
            raise self.text.error(
                column.span, "BAD_PACE", f"'{name.name}.{column.name}' is made of several columns, and is none itself",
                hint=f"name one of: {', '.join(t for t in stream.timeColumns if t.lower() in columns)}; or use "
                "stream.pace(..., on=...) on the union",
            )  # fmt: skip
        at = columns.index(column.name.lower())
        return at, stream._node.schema[at].type

    def _column(self, name: Word, column: Word) -> str:
        return self.streams[name.name.lower()].columns[self._at(name, column)[0]]
