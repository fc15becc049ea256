"""Statements: what a text defines, sets, writes and prints."""

from __future__ import annotations

from dataclasses import replace

from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.extents import skip
from slackwater.surface.sql.from_clause import Checked
from slackwater.surface.sql.promises import policy
from slackwater.surface.sql.queries import CLAUSES, QueryReader
from slackwater.surface.sql.text import Span
from slackwater.surface.sql.tree import (
    CreateStream,
    CreateTable,
    CreateView,
    Cut,
    Explain,
    Option,
    Setting,
    Show,
    SourceClauses,
    Statement,
    TimeOf,
    Word,
)
from slackwater.surface.sql.watermarks import watermarks

_HEADS = ("CREATE", "SET", "EXPLAIN", "SELECT", "WITH")
_REFUSED = {
    "IGNORE": "feedback goes to a query that runs: slackwater feedback CHECKPOINT --ignore 'v > 1', or query.feedback(...) in Python",
    "FEEDBACK": "feedback goes to a query that runs: slackwater feedback CHECKPOINT --ignore 'v > 1', or query.feedback(...) in Python",
    "INSERT": "write CREATE STREAMING TABLE t ... AS SELECT ...",
    "UPDATE": "a stream's rows do not change",
    "DELETE": "a stream's rows do not change",
    "MERGE": "write CREATE STREAMING TABLE t ... AS SELECT ...",
    "DROP": "names last as long as the text: leave the statement out",
    "ALTER": "change the CREATE statement; a restart says whether it may change",
    "USE": "streams have no schemas",
    "DESCRIBE": "use slackwater check, which tells names and types",
    "SHOW": "use slackwater check, which tells names and types",
    "REFRESH": "a stream reads new rows by itself",
    "CACHE": "leave it out",
    "VALUES": "read a stream; rows that are given once are no stream",
}  # fmt: skip
_SOURCE_WORDS = (
    "TIME", "ARRIVAL", "PARTITION", "LATE", "END", "AS", "USING", "OPTIONS", "PROGRESS", "UNIT", "IDLE", "FUTURE", "LAG", "IN",
)  # fmt: skip
_UNITS = ("SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND", "MINUTE", "HOUR", "DAY")


class StatementReader:
    """Reads the statements of a text; ``checked`` sees each expression."""

    def __init__(self, checked: Checked):
        self._queries = QueryReader(checked)

    def read(self, cursor: Cursor) -> list[Statement]:
        """All statements."""
        made: list[Statement] = []
        while True:
            while cursor.take_sign(";"):
                pass
            if cursor.peek().kind == "end":
                break
            made.append(self._statement(cursor))
            if cursor.peek().kind != "end" and not cursor.peek().is_sign(";"):
                known = (
                    (*CLAUSES, *_SOURCE_WORDS) if isinstance(made[-1], CreateStream) else CLAUSES
                )
                raise cursor.expected(
                    "; or the end of the statement", known=known,
                    hint="put ; between statements" if cursor.peek().is_word(*_HEADS) else "",
                )  # fmt: skip
        if not made:
            raise cursor.expected(
                "a statement", hint="write CREATE STREAM ..., or SELECT ... FROM ..."
            )
        return made

    def _statement(self, cursor: Cursor) -> Statement:
        first = cursor.peek()
        if first.is_word("SELECT", "WITH") or first.is_sign("("):
            query = self._queries.query(cursor)
            return Show(query, cursor.span_from(first))
        if cursor.take("EXPLAIN"):
            cursor.take_any("EXTENDED", "FORMATTED", "COST", "CODEGEN")
            query = self._queries.query(cursor)
            return Explain(query, cursor.span_from(first))
        if cursor.take("SET"):
            return self._setting(cursor, first.span)
        if cursor.take("CREATE"):
            return self._create(cursor, first.span)
        if first.word in _REFUSED:
            raise cursor.text.error(
                first.span,
                "NOT_ON_STREAMS",
                f"{first.word} is no statement here",
                hint=_REFUSED[first.word],
            )
        raise cursor.expected("CREATE, SET, EXPLAIN or SELECT", known=_HEADS, back=0)

    def _create(self, cursor: Cursor, first: Span) -> Statement:
        if cursor.take("OR"):
            word = cursor.take_any("REPLACE", "REFRESH")
            # Names last as long as the text, so that nothing is replaced; and a start on a checkpoint is a refresh.
            fits = ("STREAMING",) if word == "REFRESH" else ("TEMPORARY", "TEMP", "VIEW")
            if not word or not cursor.peek().is_word(*fits):
                raise cursor.expected(
                    "REFRESH STREAMING TABLE, or REPLACE TEMPORARY VIEW",
                    known=("REFRESH", "REPLACE"),
                    back=1,
                )
        if cursor.take("STREAM"):
            return self._stream(cursor, first)
        if cursor.is_words("STREAMING", "TABLE"):
            cursor.at += 2
            return self._table(cursor, first)
        temporary = cursor.take_any("TEMPORARY", "TEMP")
        if cursor.take("VIEW"):
            name = self._new_name(cursor, "the name of the view")
            cursor.expect("AS")
            return CreateView(name, self._queries.query(cursor), cursor.span_from(first))
        if not temporary and cursor.peek().is_word("TABLE", "EXTERNAL"):
            raise cursor.text.error(
                cursor.peek().span, "NOT_ON_STREAMS", "CREATE TABLE makes a table of rows that are there",
                hint="write CREATE STREAM for what is read, CREATE STREAMING TABLE ... AS for what is written",
            )  # fmt: skip
        if not temporary and cursor.peek().is_word("RELATION"):
            raise cursor.text.error(
                cursor.peek().span, "NOT_THERE_YET", "relations are made in Python so far",
                hint='join there, stream.join(sw.relation("tables/devices"), on="k"), and give sw.sql the result in streams=',
            )  # fmt: skip
        raise cursor.expected(
            "STREAM, STREAMING TABLE or TEMPORARY VIEW", known=("STREAM", "STREAMING", "TEMPORARY", "VIEW"), back=0
        )  # fmt: skip

    def _new_name(self, cursor: Cursor, what: str) -> Word:
        if cursor.is_words("IF", "NOT", "EXISTS"):
            cursor.at += 3
        name = cursor.expect_name(what)
        if cursor.peek().is_sign("."):
            raise cursor.text.error(
                name.span,
                "SYNTAX",
                "names here have no schema in front",
                hint="write the name alone",
            )
        return name

    # --- streams ----------------------------------------------------------------------------------

    def _stream(self, cursor: Cursor, first: Span) -> CreateStream:
        name = self._new_name(cursor, "the name of the stream")
        columns: Cut | None = None
        clauses = SourceClauses()
        if cursor.peek().is_sign("("):
            opening = cursor.at
            cursor.next()
            skip(cursor)
            if cursor.at - opening < 3:
                raise cursor.text.error(
                    cursor.last().span, "SYNTAX", "the list of columns is empty",
                    hint="write, for example, (k STRING, ts TIMESTAMP)",
                )  # fmt: skip
            last, marks = watermarks(cursor, opening + 1, cursor.at - 1)
            columns = cursor.cut(opening + 1, last)
            clauses = replace(clauses, times=marks)
        format_: Word | None = None
        options: tuple[Option, ...] = ()
        while True:
            token = cursor.peek()
            if token.is_word("USING") and format_ is None:
                cursor.next()
                format_ = cursor.expect_name("a format, such as parquet")
            elif token.is_word("OPTIONS") and not options:
                cursor.next()
                options = self._options(cursor)
            elif token.is_word("AS"):
                cursor.next()
                query = self._queries.query(cursor)
                made = CreateStream(
                    name, columns, format_, options, clauses, query, cursor.span_from(first)
                )
                return self._checked_stream(cursor, made)
            else:
                more = self._clause(cursor, clauses)
                if more is None:
                    break
                clauses = more
        if format_ is None:
            raise cursor.expected(
                f"USING and a format for stream '{name.name}'", known=_SOURCE_WORDS,
                hint="write USING parquet OPTIONS (path '...')",
            )  # fmt: skip
        return self._checked_stream(
            cursor,
            CreateStream(name, columns, format_, options, clauses, None, cursor.span_from(first)),
        )

    def _checked_stream(self, cursor: Cursor, made: CreateStream) -> CreateStream:
        times = made.clauses.times
        if made.query is not None and (made.format is not None or made.columns is not None):
            raise cursor.text.error(
                made.name.span, "SYNTAX", "a stream has a format, or is a select over a raw input, not both",
                hint="define the raw input first, without TIME, and select from it",
            )  # fmt: skip
        if made.query is not None and not times:
            raise cursor.text.error(
                made.name.span, "NO_TIME", f"stream '{made.name.name}' has no TIME",
                hint="write CREATE STREAM n TIME ts ... AS SELECT ...",
            )  # fmt: skip
        if not times and made.clauses != SourceClauses():
            raise cursor.text.error(
                made.name.span, "NO_TIME", "a raw input has no clauses of a stream: it has no TIME",
                hint="add TIME and the column",
            )  # fmt: skip
        return made

    def _clause(self, cursor: Cursor, made: SourceClauses) -> SourceClauses | None:
        first = cursor.peek()
        if cursor.take("TIME"):
            column = cursor.expect_name("the time column")
            if same := next(
                (t for t in made.times if t.column.name.lower() == column.name.lower()), None
            ):
                raise cursor.text.error(
                    column.span, "DUPLICATE_NAME", f"TIME {column.name} stands twice", hint="take one out",
                    also=same.span,
                )  # fmt: skip
            unit = None
            if cursor.take("UNIT"):
                word = cursor.next()
                unit = word.word.removesuffix("S")
                if unit not in _UNITS:
                    cursor.at -= 1
                    raise cursor.expected("a unit of time", known=_UNITS, back=0)
            progress = policy(cursor) if cursor.take("PROGRESS") else None
            time = TimeOf(column, unit and unit.lower(), progress, cursor.span_from(first))
            return replace(made, times=(*made.times, time))
        if cursor.take("ARRIVAL"):
            cursor.expect("BY")
            return replace(made, order=cursor.names("a column"))
        if cursor.take("PARTITION"):
            cursor.expect("BY")
            column = cursor.expect_name("the partition's column")
            return replace(made, partition=column, partitions=self._partitions(cursor))
        if cursor.take("LATE"):
            word_ = cursor.take_any("ADMIT", "DROP", "RAISE")
            if not word_:
                raise cursor.expected(
                    "ADMIT, DROP or RAISE", known=("ADMIT", "DROP", "RAISE"), back=0
                )
            return replace(made, late=word_.lower())
        if cursor.take("END"):
            cursor.expect("OF", "STREAM")
            return replace(made, end=True)
        return None

    def _partitions(self, cursor: Cursor) -> int | tuple[str | None, ...] | None:
        if not cursor.take_sign("("):
            return None
        names: list[str | None] = []
        while True:
            token = cursor.peek()
            value = None
            if not cursor.take("NULL"):
                if token.kind not in ("text", "number", "variable"):
                    raise cursor.expected(
                        "a number of partitions, or their names in quotes (NULL has none)", back=0
                    )
                cursor.next()
                value = cursor.variables.value(token)
                if token.kind != "text" and not names and value.isdigit() and cursor.take_sign(")"):
                    return int(value)
            names.append(value)
            if not cursor.take_sign(","):
                cursor.expect_sign(")")
                return tuple(names)

    # --- tables and options -----------------------------------------------------------------------

    def _table(self, cursor: Cursor, first: Span) -> CreateTable:
        name = self._new_name(cursor, "the name of the table")
        if cursor.peek().is_sign("("):
            raise cursor.text.error(
                cursor.peek().span, "SYNTAX", "a streaming table takes its columns from its query",
                hint="take the list out, and name columns with AS in the query",
            )  # fmt: skip
        format_: Word | None = None
        options: tuple[Option, ...] = ()
        partitions: tuple[Word, ...] = ()
        while not cursor.take("AS"):
            if cursor.take("USING"):
                format_ = cursor.expect_name("a format, such as parquet")
            elif cursor.take("OPTIONS"):
                options = self._options(cursor)
            elif cursor.take("PARTITIONED"):
                cursor.expect("BY")
                cursor.expect_sign("(")
                partitions = cursor.names("a column")
                cursor.expect_sign(")")
            else:
                raise cursor.expected(
                    "AS and the query", known=("USING", "OPTIONS", "PARTITIONED", "AS"),
                    hint="write CREATE STREAMING TABLE t USING parquet OPTIONS (path '...') AS SELECT ...",
                )  # fmt: skip
        query = self._queries.query(cursor)
        return CreateTable(name, format_, options, partitions, query, cursor.span_from(first))

    def _options(self, cursor: Cursor) -> tuple[Option, ...]:
        cursor.expect_sign("(", "OPTIONS")
        made: list[Option] = []
        while True:
            made.append(self._option(cursor, made))
            if not cursor.take_sign(","):
                cursor.expect_sign(")")
                return tuple(made)

    def _option(self, cursor: Cursor, before: list[Option]) -> Option:
        first = cursor.peek()
        name = self._option_name(cursor)
        cursor.take_sign("=")
        value = self._value(cursor)
        span = cursor.span_from(first)
        same = next((o for o in before if o.name.lower() == name.lower()), None)
        if same is not None:
            raise cursor.text.error(
                span,
                "DUPLICATE_NAME",
                f"option {name} stands twice",
                hint="take one out",
                also=same.span,
            )
        return Option(name, value, span)

    def _option_name(self, cursor: Cursor) -> str:
        token = cursor.peek()
        if token.kind == "text":
            cursor.next()
            return cursor.variables.value(token)
        parts = [cursor.expect_name("the name of an option").name]
        while cursor.take_sign("."):
            parts.append(cursor.next().text)
        return ".".join(parts)

    def _value(self, cursor: Cursor) -> str:
        token = cursor.peek()
        sign = "-" if cursor.take_sign("-") else ""
        token = cursor.peek()
        plain = token.kind in ("text", "number", "variable") or token.is_word("TRUE", "FALSE")
        if not plain:
            raise cursor.expected("a value in quotes, a number, true or false", back=0)
        cursor.next()
        value = cursor.variables.value(token, environment=True)
        return sign + (value.lower() if token.kind == "word" else value)

    def _setting(self, cursor: Cursor, first: Span) -> Setting:
        begin = cursor.peek()
        name = self._option_name(cursor)
        cursor.expect_sign("=", f"SET {name}")
        value = self._value(cursor)
        return Setting(Option(name, value, cursor.span_from(begin)), cursor.span_from(first))
