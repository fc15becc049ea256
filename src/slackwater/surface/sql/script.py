"""``sw.script``: statements that define streams, views and tables, and run as one query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError, SlackwaterError
from slackwater.surface.check import CheckReport
from slackwater.surface.options import check_names, check_trigger, flag
from slackwater.surface.sql.builder import Builder, Known
from slackwater.surface.sql.expressions import Expressions
from slackwater.surface.sql.places import Directory, check_directories
from slackwater.surface.sql.reading import read, text_of
from slackwater.surface.sql.stream_statements import FILES, StreamStatements, option_value
from slackwater.surface.sql.text import Span, SqlText
from slackwater.surface.sql.tree import (
    CreateStream,
    CreateTable,
    CreateView,
    Explain,
    Query,
    Setting,
    Show,
    Word,
)
from slackwater.surface.sql.variables import Variables
from slackwater.surface.sql.verdicts import report_of
from slackwater.surface.writer import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.engine.driver.handle import StreamingQuery
    from slackwater.surface.stream import Stream

_TRIGGERS = {"available now": {"availableNow": True}, "once": {"once": True}}

Shown = Callable[["Stream", str], StreamWriter]
"""How the rows of a query that is no table are shown: a writer for its stream and its name."""


def script(
    spark: SparkSession,
    text: str | Path,
    *,
    variables: Mapping[str, Any] | None = None,
    functions: Mapping[str, Any] | None = None,
) -> Script:
    """The statements of a text or file, analysed; nothing has started.

    Parameters
    ----------
    spark
        The session. ``SET spark...`` is refused: the session is there already.
    text
        Statements, as ``docs/sql.md`` describes them; a `pathlib.Path` is a file.
    variables
        Values of ``${name}``; a value is never read as SQL.
    functions
        Aggregates made by ``sw.udaf``, by name.

    Examples
    --------
    >>> q = script(spark, Path("talkers.sql"), variables={"work": "/data"}).start()  # doctest: +SKIP
    """
    return Script(spark, text_of(text), variables, functions)


class Script:
    """What a text defines: ``streams`` by name, ``outputs`` as writers by name; ``start`` runs all outputs as one query."""

    def __init__(
        self,
        spark: SparkSession,
        text: SqlText,
        variables: Mapping[str, Any] | None = None,
        functions: Mapping[str, Any] | None = None,
        *,
        own_session: bool = False,
        shown: Shown | None = None,
    ):
        self.text = text
        self._spark = spark
        self._variables = Variables(text, variables)
        self._own_session = own_session
        self._shown = shown or _on_console
        self.streams: dict[str, Stream] = {}
        self.outputs: dict[str, StreamWriter] = {}
        self.explained: list[Stream] = []
        self._spans: dict[str, Span] = {}
        self._options: dict[str, Any] = {}
        self._trigger: dict[str, Any] | None = None
        self._checkpoint: str | None = None
        self._directories: list[Directory] = []
        self._known: dict[str, Known] = {}
        with self._hiding():
            self._build(functions)

    # --- what it is for ---------------------------------------------------------------------------

    def check(self) -> CheckReport:
        """Whether the outputs could be started: what frees each state, and what to look at."""
        with self._hiding():
            return report_of(self.outputs, self._options)

    def explain(self, *, extended: bool = False) -> str:
        """The plan of all outputs, as text."""
        from slackwater.surface.explain import explain_streams

        streams = {n: w._stream for n, w in self.outputs.items()}
        streams |= {f"explain{i or ''}": s for i, s in enumerate(self.explained)}
        self._check_outputs(bool(streams))
        return explain_streams(streams, extended=extended)

    def start(
        self, *, checkpointLocation: str | None = None, name: str | None = None
    ) -> StreamingQuery:
        """Run all outputs as one query."""
        from slackwater.surface.start import start

        self._check_outputs(bool(self.outputs))
        with self._hiding():
            try:
                return start(
                    list(self.outputs.values()), checkpointLocation=checkpointLocation or self._checkpoint,
                    trigger=self._trigger, name=name, options=self._options,
                )  # fmt: skip
            except SlackwaterError as error:
                raise self._placed(error) from None

    @property
    def checkpointLocation(self) -> str | None:
        """The checkpoint that the text sets."""
        return self._checkpoint

    # --- inside -----------------------------------------------------------------------------------

    def _hiding(self) -> _Hiding:
        return _Hiding(self._variables)

    def _check_outputs(self, there: bool) -> None:
        if not there:
            raise self.text.error(
                Span(0, 1), "NO_OUTPUT", "the text has no output: no table, and no query of its own",
                hint="add CREATE STREAMING TABLE t ... AS SELECT ..., or a SELECT",
            )  # fmt: skip

    def _placed(self, error: SlackwaterError) -> SlackwaterError:
        """An error of a start at the statement that it is about."""
        if getattr(error, "place", None) is not None:
            return error
        span = self._clause_of(error)
        if span is None:
            names = [n for n in self._spans if f"'{n}'" in error.message]
            alone = list(self.outputs) if len(self.outputs) == 1 else []
            name = next((n for n in [error.parameters.get("output"), *names, *alone] if n), None)
            span = self._spans.get(name or "")
        return error if span is None else error.at(self.text.place(span))

    def _clause_of(self, error: SlackwaterError) -> Span | None:
        """The clause that an error of a start is about: of a state that nothing frees, of a type, of what a restart refuses."""
        given = error.parameters
        outputs = {n: w._stream._node for n, w in self.outputs.items()}
        if error.condition in ("UNBOUNDED_STATE", "UNSUPPORTED_TYPE") and "operator" in given:
            return self._clauses.of_operator(list(outputs.values()), given["operator"])
        if error.condition == "UNSUPPORTED_TYPE" and given.get("output") in outputs:
            return self._clauses.of(outputs[given["output"]])
        if error.condition == "QUERY_CHANGED" and given.get("output") in outputs:
            return self._clauses.of_line(outputs[given["output"]], given.get("line", ""))
        return None

    def _build(self, functions: Mapping[str, Any] | None) -> None:
        cursor, statements = read(self.text, self._variables, lambda _, __: None)
        expressions = Expressions(cursor, self._spark)
        self._clauses = expressions.clauses
        for s in statements:
            if isinstance(s, Setting):
                self._set(s)
        ended = flag({k.lower(): v for k, v in self._options.items()}, "endOfStream")
        builder = Builder(expressions, functions, ended=ended)
        inputs = StreamStatements(expressions, self._spark)
        for statement in statements:
            if isinstance(statement, CreateStream):
                self._define(statement.name, None)
                made = inputs.made(statement, self._known)
                word = statement.name
                if made is None:
                    self._known[word.name.lower()] = Known(word.name, None, word.span, "it is a raw input, without TIME")  # fmt: skip
                else:
                    self.streams[word.name] = made
                    expressions.clauses.note(made._node, word.span)
                    self._known[word.name.lower()] = Known(word.name, made, word.span)
                    self._spans[word.name] = statement.clauses.times[0].span
            elif isinstance(statement, CreateView):
                self._define(statement.name, None)
                self._add(statement.name, builder.query(statement.query, self._known))
            elif isinstance(statement, CreateTable):
                self._define(statement.name, None)
                stream = builder.query(statement.query, self._known)
                self._table(statement, stream, expressions)
                self._add(statement.name, stream)
            elif isinstance(statement, Explain):
                self.explained.append(builder.query(statement.query, self._known))
            elif isinstance(statement, Show):
                self._show(statement.query, builder)
        self._directories += inputs.directories
        check_directories(self.text, self._directories)

    def _define(self, word: Word, _: None) -> None:
        same = self._known.get(word.name.lower())
        if same is not None:
            raise self.text.error(
                word.span, "DUPLICATE_NAME", f"'{word.name}' is defined twice",
                hint="give one of them another name", also=same.span,
            )  # fmt: skip

    def _add(self, word: Word, stream: Stream) -> None:
        self._known[word.name.lower()] = Known(word.name, stream, word.span)

    def _show(self, query: Query, builder: Builder) -> None:
        stream = builder.query(query, self._known)
        taken = {*self._known, *(n.lower() for n in self.outputs)}
        name = next(
            n
            for i in range(1, len(taken) + 3)
            if (n := "query" if i == 1 else f"query{i}") not in taken
        )
        self.outputs[name] = self._shown(stream, name)
        self._spans[name] = query.span

    def _table(self, statement: CreateTable, stream: Stream, expressions: Expressions) -> None:
        word = statement.name
        kind = "parquet" if statement.format is None else statement.format.name.lower()
        path = option_value(statement.options, "path")
        if kind in FILES and path is None:
            raise self.text.error(
                word.span, "NO_PATH", f"table '{word.name}' is made of {kind} files and has no path",
                hint="add OPTIONS (path '...')",
            )  # fmt: skip
        if path is not None:
            self._directories.append(Directory("table", word.name, path.value, path.span))
        with expressions.blamed([], word.span):
            writer = stream.writeStream.format(kind).queryName(word.name)
        for option in statement.options:
            writer = writer.option(option.name, option.value)
        for column in statement.partitions:
            with expressions.blamed([], column.span):
                stream._column(column.name)
        if statement.partitions:
            with expressions.blamed([], statement.partitions[0].span):
                writer = writer.partitionBy(*[c.name for c in statement.partitions])
        try:
            writer._sink(word.name)
        except SlackwaterError as error:
            about = option_value(statement.options, error.parameters.get("option", "path"))
            raise error.at(
                self.text.place(about.span if about is not None else word.span)
            ) from None
        self.outputs[word.name] = writer
        self._spans[word.name] = word.span

    def _set(self, statement: Setting) -> None:
        option = statement.option
        name, value = option.name, option.value
        if name.lower().startswith("spark."):
            if not self._own_session:
                raise self.text.error(
                    option.span, "BAD_OPTION", "SET spark... comes too late: the session is given",
                    hint="set it where the session is made: sw.session(conf={...})",
                )  # fmt: skip
            return
        try:
            if name.lower() == "trigger":
                self._trigger = dict(
                    _TRIGGERS.get(value.strip().lower(), {"processingTime": value})
                )
                check_trigger(self._trigger)
            elif name.lower() == "checkpointlocation":
                self._checkpoint = value
                self._directories.append(Directory("checkpoint", "", value, option.span))
            else:
                check_names([name], None)
                self._options[name] = value
        except AnalysisError as error:
            raise error.at(self.text.place(option.span)) from None


class _Hiding:
    """Keeps values of the environment out of errors."""

    def __init__(self, variables: Variables):
        self._variables = variables

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, SlackwaterError):
            hide = self._variables.hidden
            error.message, error.hint = hide(error.message), hide(error.hint)
            error.parameters = {n: hide(v) for n, v in error.parameters.items()}
            error.args = tuple(hide(a) if isinstance(a, str) else a for a in error.args)


def _on_console(stream: Stream, name: str) -> StreamWriter:
    return stream.writeStream.format("console").queryName(name)
