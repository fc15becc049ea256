"""Expressions cut from the text as they are written: only names, variables and comments are replaced before Spark reads them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.bad_types import bad_type, letter_of
from slackwater.engine.analysis.spark_errors import captured
from slackwater.errors import AnalysisError
from slackwater.surface.sql.clauses import Clauses
from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.text import Span, meant
from slackwater.surface.sql.tokens import Token
from slackwater.surface.sql.tree import Cut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Parts = tuple[str, ...]
Place = Callable[[Parts, Span], str | None]
"""The text that stands for a name in Spark's eyes; None leaves it as it is."""
Swaps = Mapping[int, tuple[int, str]]
"""Ranges of tokens, by the number of the first, with their end and what stands in their place."""

_INPUT = "compute it where the stream is made: CREATE STREAM s TIME ts AS SELECT ... FROM raw, which Spark runs"
_IN_SQL = {
    "compute it on the DataFrame, before sw.stream(...), or use Slackwater's operator": _INPUT,
    "compute it on the DataFrame, before sw.stream(...)": _INPUT,
    "apply it on the DataFrame, before sw.stream(...)": _INPUT,
    "add such a column on the DataFrame, before sw.stream(...)": _INPUT,
    "use groupBy(..., sw.window(...)).agg(...)": "write it into a select list or HAVING with GROUP BY window(ts, '1 minute')",
    "use sw.window(...)": "write GROUP BY window(ts, '1 minute')",
    "a name of its own with .alias(...)": "a name of its own with AS",
    "another name with .alias(...)": "another name with AS",
    "sw.heavyHitters": "heavy_hitters",
}
"""What errors of the analysis say in Python's words, and what SQL says instead."""
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """A piece of what Spark gets: where it begins there, and the letters that it stands for."""

    at: int
    span: Span
    as_written: bool


@dataclass(frozen=True)
class Written:
    """An expression for Spark, and the way back to the letters of the user's text."""

    text: str
    pieces: tuple[Piece, ...]
    span: Span
    alias: str | None = None

    def back(self, first: int, last: int) -> Span:
        """The letters of the user that the letters ``first`` up to ``last`` come from."""
        start, _ = self._origin(first)
        _, end = self._origin(max(first, last - 1))
        return Span(start, max(end, start + 1))

    def _origin(self, at: int) -> tuple[int, int]:
        number = bisect_right([p.at for p in self.pieces], at) - 1
        piece = self.pieces[max(number, 0)]
        if not piece.as_written:
            return piece.span.start, piece.span.end
        here = min(piece.span.start + at - piece.at, piece.span.end - 1)
        return here, here + 1

    @property
    def named(self) -> str:
        """With its name behind it."""
        return self.text if self.alias is None else f"{self.text} AS {quoted(self.alias)}"


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


class Expressions:
    """Cuts expressions out of one text, for one session."""

    def __init__(self, cursor: Cursor, spark: SparkSession):
        self.cursor, self.text, self.variables = cursor, cursor.text, cursor.variables
        self.tokens = cursor.tokens
        self.spark = spark
        self.clauses = Clauses()

    def write(
        self,
        cut: Cut,
        place: Place | None = None,
        swaps: Swaps | None = None,
        alias: str | None = None,
    ) -> Written:
        """The expression with names and ranges of tokens replaced."""
        made = self._joined(cut, swaps or {}, alias)
        if place is None:
            return made
        names = [(s, e, new) for s, e, parts in self.names(made)
                 if (new := place(parts, made.back(s, e))) is not None]  # fmt: skip
        return _replaced(made, names) if names else made

    def names(self, made: Written) -> list[tuple[int, int, Parts]]:
        """The names of columns in an expression as Spark's parser finds them, with their letters."""
        parser = self.spark._jsparkSession.sessionState().sqlParser()
        with self.pointing(made):
            tree = parser.parseExpression(made.text)
        leaves = tree.collectLeaves()
        every: list[tuple[int, int, Parts]] = []
        heads: set[str] = set()
        for i in range(leaves.size()):
            leaf = leaves.apply(i)
            kind = str(leaf.productPrefix())
            if kind not in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable"):
                continue
            origin = leaf.origin()
            sequence = leaf.nameParts()
            parts = tuple(str(sequence.apply(n)) for n in range(sequence.size()))
            start, end = int(origin.startIndex().get()), int(origin.stopIndex().get()) + 1
            if kind != "UnresolvedAttribute" and "->" in made.text[start:end]:
                # The variable of a lambda has the place of all of it; inside it comes before columns.
                heads.add(parts[0].lower())
            else:
                every.append((start, end, parts))
        return sorted({name for name in every if name[2][0].lower() not in heads})

    def tokens_of(self, cut: Cut) -> Sequence[Token]:
        """The tokens of an expression."""
        return self.tokens[cut.first : cut.last]

    def chain(self, cut: Cut) -> Parts | None:
        """The parts of a name with dots, if the expression is just that."""
        tokens = self.tokens_of(cut)
        if len(tokens) % 2 == 0:
            return None
        for i, token in enumerate(tokens):
            if not (token.is_name if i % 2 == 0 else token.is_sign(".")):
                return None
        return tuple(self.variables.value(t) for t in tokens[::2])

    def same(self, one: Sequence[Token], other: Sequence[Token]) -> bool:
        """Whether two expressions are written alike, apart from white space and the case of words."""
        return len(one) == len(other) and all(_alike(a, b) for a, b in zip(one, other, strict=True))

    # --- inside -----------------------------------------------------------------------------------

    def _joined(self, cut: Cut, swaps: Swaps, alias: str | None) -> Written:
        texts: list[str] = []
        pieces: list[Piece] = []
        length = 0

        def add(text: str, span: Span, as_written: bool) -> None:
            nonlocal length
            if text:
                texts.append(text)
                pieces.append(Piece(length, span, as_written))
                length += len(text)

        i, end = cut.first, None
        while i < cut.last:
            token = self.tokens[i]
            if end is not None and token.start > end:
                gap = self.text.raw[end : token.start]
                # A comment is blank to Spark too: it would replace variables in it.
                blank = gap if gap.isspace() else re.sub(r"\S", " ", gap)
                add(blank, Span(end, token.start), True)
            if i in swaps:
                last, text = swaps[i]
                add(text, Span(token.start, self.tokens[last - 1].end), False)
                i, end = last, self.tokens[last - 1].end
                continue
            last = max(i + 1, self._texts(i, cut.last))
            run = self.tokens[i:last]
            text = (
                self.variables.texts(run) if run[0].kind == "text" else self.variables.spark(token)
            )
            add(text, Span(token.start, run[-1].end), text == token.text)
            i, end = last, run[-1].end
        return Written("".join(texts), tuple(pieces), cut.span, alias)

    def _texts(self, at: int, limit: int) -> int:
        """The number behind the literals that stand side by side from here on: Spark takes them for one."""
        while at < limit and self.tokens[at].kind == "text" and not self.tokens[at].is_binary:
            at += 1
        return at

    @contextmanager
    def pointing(self, made: Written, ours: AnalysisError | None = None) -> Iterator[None]:
        """Errors of Spark's own, which no analysis of ours has seen, point into the expression that they are about."""
        from pyspark.errors import PySparkException

        try:
            with captured():
                yield
        except PySparkException as error:
            raise self._pointed(error, [made], [], ours) from None

    @contextmanager
    def blamed(
        self,
        given: Sequence[Written],
        span: Span | None = None,
        alone: Callable[[Written], Any] | None = None,
        columns: Sequence[str] = (),
    ) -> Iterator[None]:
        """Errors of what runs inside point at the expression that they are about.

        ``alone`` tries one expression by itself, where several are given. ``span`` is for errors of none of them.
        """
        try:
            yield
        except AnalysisError as error:
            if error.place is not None:
                raise
            guilty, sure = list(given), False
            if len(guilty) > 1 and alone is not None:
                guilty = self._guilty(guilty, alone)
                sure = len(guilty) == 1  # what all of them fail at is no fault of one
            cause = error.__cause__
            if guilty and cause is not None and hasattr(cause, "getQueryContext"):
                raise self._pointed(cause, guilty, columns, error) from None
            where = guilty[0].span if len(guilty) == 1 else None
            span = where if sure else span or where
            raise _in_sql(error).at(self.text.place(span or Span(0, 1))) from None

    def _guilty(self, given: Sequence[Written], alone: Callable[[Written], Any]) -> list[Written]:
        guilty = []
        for one in given:
            try:
                alone(one)
            except AnalysisError:
                guilty.append(one)
        return guilty

    def _pointed(
        self,
        cause: Any,
        guilty: Sequence[Written],
        columns: Sequence[str],
        ours: AnalysisError | None = None,
    ) -> AnalysisError:
        """An error of Spark's with its place in the user's text."""
        made = guilty[0]
        span = made.span
        condition = cause.getCondition() or ""
        contexts = cause.getQueryContext() or []
        parsed = at = letter_of(cause, made.text)
        if contexts and contexts[0].stopIndex() >= contexts[0].startIndex() >= 0:
            at = contexts[0].startIndex()
            span = made.back(at, contexts[0].stopIndex() + 1)
        elif at is not None:
            word = re.match(r"\w+|\S|$", made.text[at:])
            at = min(at, max(len(made.text) - 1, 0))
            span = made.back(at, at + max(1, len(word[0]) if word else 1))
        if (bad := bad_type(made.text, condition, at)) is not None:
            return self.text.error(made.back(bad.start, bad.end), "BAD_TYPE", bad.message, hint=bad.hint)  # fmt: skip
        first = _STATE.sub("", str(cause).strip().splitlines()[0])
        first = re.sub(r"^\[[\w.]+\]\s*", "", first)
        if ours is not None and ours.condition == "COLUMN_NOT_FOUND":
            name = ours.parameters.get("name", "?")
            return self.text.error(
                span, "COLUMN_NOT_FOUND", f"there is no column '{name}'",
                hint=meant(name.rpartition(".")[2], columns, "the columns are"), name=name,
            )  # fmt: skip
        if condition.startswith("UNRESOLVED_ROUTINE"):
            name = (cause.getMessageParameters() or {}).get("routineName", "?").replace("`", "")
            close = meant(name, _functions(self.spark))
            return self.text.error(
                span, "NO_FUNCTION", f"there is no function '{name}'",
                hint=close if close.startswith("did") else "see Spark's list of functions", name=name,
            )  # fmt: skip
        if condition.startswith("PARSE_SYNTAX_ERROR") and parsed is not None:
            return self._broken(made, span, first)
        hint = (
            _in_sql(ours).hint if ours is not None and ours.hint else "see Spark's reference of SQL"
        )
        return self.text.error(
            span,
            "BAD_EXPRESSION",
            f"Spark does not accept this: {first}",
            hint=hint,
            spark=condition,
        )

    def _broken(self, made: Written, span: Span, first: str) -> AnalysisError:
        """An error of syntax; a word near by may be a clause that was misspelled."""
        from slackwater.surface.sql.dialect import _WORDS
        from slackwater.surface.sql.text import nearest

        inside = [t for t in self.tokens if made.span.start <= t.start < made.span.end]
        number = next((i for i, t in enumerate(inside) if t.end > span.start), len(inside) - 1)
        for token in reversed(inside[max(0, number - 1) : number + 1]):
            close = nearest(token.text, _WORDS, 0.7) if token.kind == "word" else None
            if close is not None and token.word != close:
                return self.text.error(
                    token.span,
                    "SYNTAX",
                    f"{token.text} was not expected here",
                    hint=f"did you mean {close}?",
                )
        message = first.replace("Syntax error at or near", "not expected here:").rstrip(".")
        return self.text.error(
            span, "SYNTAX", message, hint="check the operator, comma or bracket in front of it"
        )


def _in_sql(error: AnalysisError) -> AnalysisError:
    """An error of the analysis in words of SQL."""
    message, hint = error.message, error.hint
    for python, sql in _IN_SQL.items():
        message, hint = message.replace(python, sql), hint.replace(python, sql)
    return AnalysisError(error.condition, message, hint=hint, **error.parameters)


def _alike(one: Token, other: Token) -> bool:
    if one.is_name and other.is_name:
        return one.name.lower() == other.name.lower()
    return one.kind == other.kind and one.text == other.text


def _replaced(made: Written, names: Sequence[tuple[int, int, str]]) -> Written:
    """With other texts in place of letters."""
    texts: list[str] = []
    pieces: list[Piece] = []
    length = at = 0

    def copy(until: int) -> None:
        nonlocal length, at
        for n, piece in enumerate(made.pieces):
            end = made.pieces[n + 1].at if n + 1 < len(made.pieces) else len(made.text)
            low, high = max(piece.at, at), min(end, until)
            if low < high:
                moved = Span(piece.span.start + low - piece.at, piece.span.end) if piece.as_written else piece.span  # fmt: skip
                pieces.append(Piece(length, moved, piece.as_written))
                texts.append(made.text[low:high])
                length += high - low
        at = until

    for start, end, new in names:
        copy(start)
        pieces.append(Piece(length, made.back(start, end), False))
        texts.append(new)
        length += len(new)
        at = end
    copy(len(made.text))
    return Written("".join(texts), tuple(pieces), made.span, made.alias)


def _functions(spark: SparkSession) -> list[str]:
    return [str(row[0]) for row in spark.sql("SHOW FUNCTIONS").collect()]
