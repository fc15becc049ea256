"""Streams: what users hold and transform. A stream is immutable; every method returns a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.analyse import Analyser, struct_of
from slackwater.engine.analysis.stream_columns import Owner, names_a_stream
from slackwater.engine.lowlevel.inputs import Input
from slackwater.engine.plan.reserved import check_names, check_twice
from slackwater.errors import AnalysisError
from slackwater.model.join_times import leaves
from slackwater.model.node import (
    LATE_FIELDS,
    Dedup,
    Filter,
    Late,
    Node,
    Pace,
    Project,
    Sort,
    Source,
)
from slackwater.model.render import render
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn, parse_span
from slackwater.model.unnamed_time import unnamed_origin
from slackwater.model.walk import check_chain
from slackwater.semantics.pattern_rules import plain_column
from slackwater.surface.progressing import progressing
from slackwater.surface.stream_columns import (
    Origin,
    attribute,
    by_key,
    kept,
    owner_number,
    place_in,
    speaks_of,
)
from slackwater.surface.timeless import no_time, stands_still
from slackwater.surface.union import by_name, by_position
from slackwater.surface.windows import Windowing

if TYPE_CHECKING:
    from pyspark.sql import Column, Row, SparkSession
    from pyspark.sql.types import StructType

    from slackwater.model.policy import Policy
    from slackwater.surface.check import CheckReport
    from slackwater.surface.conditions import ConditionSpec
    from slackwater.surface.grouped import GroupedStream
    from slackwater.surface.relation import Relation
    from slackwater.surface.writer import StreamWriter


class Stream:
    """Rows that keep coming, with at least one progressing column. Made by ``sw.stream``.

    The methods are named as those of a PySpark DataFrame and take Columns or SQL texts.
    """

    def __init__(
        self,
        node: Node,
        inputs: Mapping[int, Input],
        analyser: Analyser,
        spark: SparkSession,
        alias: str | None = None,
        origins: Sequence[Origin] = (),
    ):
        check_chain(node)
        self._node = node
        self._inputs = dict(inputs)
        self._analyser = analyser
        self._spark = spark
        self._alias = alias
        self._origins = tuple(origins)
        self._number = owner_number()
        self._unmatched: Stream | str | None = None
        """Of a join with a relation: its rows without a partner, or the kind of join that gives them out itself."""

    def _with(self, node: Node, origin: Origin | None = None) -> Stream:
        """Another stream, made of this one; ``origin`` where the operator does not say which columns stay."""
        origin = origin or Origin(self, kept(node, self.columns))
        return Stream(node, self._inputs, self._analyser, self._spark, self._alias, (origin,))

    # ---- columns ----
    @property
    def _owner(self) -> Owner:
        """How columns of this stream name it."""
        return Owner(self._number, self._label or "")

    def __getitem__(self, key: Any) -> Any:
        """The column of that name or number, which belongs to this stream; a condition filters, a list selects."""
        return by_key(self, key)

    def __getattr__(self, name: str) -> Column:
        """The column of that name, which belongs to this stream. Methods come first: then ``stream["name"]``."""
        return attribute(self, name)

    def _placed(self, expression: Any) -> Any:
        """An expression with the names that columns of streams have in this one."""
        if not names_a_stream(expression) and not speaks_of(self, expression):
            return expression
        return self._analyser.placed(
            self._node.schema, expression, lambda parts: place_in(self, parts)
        )

    # ---- what it is ----
    @property
    def schema(self) -> StructType:
        """The columns, as PySpark shows them."""
        return struct_of(self._node.schema)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [f.name for f in self._node.schema]

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """Names and types of the columns."""
        return [(f.name, f.dataType.simpleString()) for f in self.schema.fields]

    @property
    def isStreaming(self) -> bool:
        """True: rows keep coming, of a stream as of every result made of it."""
        return True

    @property
    def timeColumns(self) -> list[str]:
        """Names of the progressing columns; the first is the default of ``on=``."""
        return [] if stands_still(self._node) else [t.name for t in self._node.times]

    def printSchema(self) -> None:
        """Print the columns as a tree."""
        print(self.schema.treeString() if hasattr(self.schema, "treeString") else self._tree())

    def _tree(self) -> str:
        lines = [f" |-- {f.name}: {f.type} (nullable = true)" for f in self._node.schema]
        return "\n".join(["root", *lines])

    def explain(self, extended: bool = False) -> None:
        """Print the plan: operators, where each runs, and why."""
        from slackwater.surface.explain import explain_streams

        print(explain_streams({"result": self}, extended=extended))

    def contracts(self) -> CheckReport:
        """Whether a query of this stream could be started: schemes on every edge, what is freed, and what is missing."""
        from slackwater.surface.check import report

        return report([self._node])

    def createOrReplaceTempView(self, name: str) -> None:
        """Let ``sw.sql`` and ``sw.script`` find this stream by a name, in this session; Spark's own SQL does not see it."""
        from slackwater.surface.named_views import name_view

        name_view(self, name)

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}: {f.type}" for f in self._node.schema)
        return f"Stream[{shown}]"

    @property
    def late(self) -> Stream:
        """The late rows of this stream: each with reason, by how much, the bound, and missed windows.

        Of a stream that keeps a pace, the rows that the pace drops.
        """
        if type(self._node) is Pace:
            from slackwater.surface.pace import outpaced

            return outpaced(self, self._node)
        if not isinstance(self._node, Source):
            raise AnalysisError(
                "NOT_A_SOURCE",
                "only a stream made by sw.stream, and one that keeps a pace, has late rows: they are told where rows are judged",
                hint="keep the result of sw.stream(...), or of .pace(...), in a variable and use its .late",
            )
        source = self._node
        integer = source.times[0].is_integer
        extra = tuple(
            Field(f.name, "bigint") if integer and f.name == "_late_bound" else f
            for f in LATE_FIELDS
        )
        names = [f.name for f in (*source.schema, *extra)]
        check_twice(names, "rename it before sw.stream(...)")
        return self._with(Late((*source.schema, *extra), source.times, source))

    @property
    def unmatched(self) -> Stream:
        """The rows of this stream's left side that have no partner in the relation: of inner and left_semi joins with one."""
        if isinstance(self._unmatched, Stream):
            return self._unmatched
        if self._unmatched is not None:
            raise AnalysisError(
                "NO_UNMATCHED",
                f"a {self._unmatched} join gives out rows without a partner itself",
                hint='they are its results; .unmatched is of how="inner" and how="left_semi"',
            )
        raise AnalysisError(
            "NO_UNMATCHED",
            "only the result of a join with a relation has rows without a partner beside it",
            hint="keep the result of stream.join(sw.relation(...), ...) in a variable and use its .unmatched",
        )

    # ---- row operators ----
    def where(self, condition: Column | str) -> Stream:
        """Rows for which the condition is true; progress passes unchanged."""
        test = self._analyser.condition(self._node.schema, self._placed(condition))
        return self._with(Filter(self._node.schema, self._node.times, self._node, test))

    filter = where

    def select(self, *columns: Column | str | Sequence[Column | str]) -> Stream:
        """Columns and expressions, as DataFrame.select takes them."""
        flat: list[Column | str] = []
        for item in columns:
            flat.extend(item if isinstance(item, (list, tuple)) else [item])  # type: ignore[list-item]
        chosen = self._analyser.columns(self._node.schema, [self._placed(c) for c in flat])
        check_names(c.name for c in chosen)
        return self._project(chosen)

    selectExpr = select

    def withColumn(self, name: str, value: Column | str) -> Stream:
        """Add or replace a column; text is read as SQL."""
        return self.withColumns({name: value})

    def withColumns(self, columns: Mapping[str, Column | str]) -> Stream:
        """Add or replace several columns; each expression sees the columns as they were."""
        check_names(columns, way="give the column another name")
        values = [self._placed(v) for v in columns.values()]
        analysed = self._analyser.columns(self._node.schema, values, star_ok=False)
        new = {n: Named(n, f.expr) for n, f in zip(columns, analysed, strict=True)}
        kept = []
        for f in self._node.schema:
            same = next((n for n in new if self._same(n, f.name)), None)
            kept.append(
                new.pop(same) if same is not None else Named(f.name, column(f.name, f.type))
            )
        return self._project((*kept, *new.values()))

    def withColumnRenamed(self, existing: str, new: str) -> Stream:
        """Rename a column; nothing happens if there is none of that name, as in Spark."""
        check_names([new], way="give the column another name")
        return self._project(
            tuple(
                Named(new if self._same(existing, f.name) else f.name, column(f.name, f.type))
                for f in self._node.schema
            )
        )

    def drop(self, *columns: Column | str) -> Stream:
        """Leave columns out; names that do not exist are ignored, as in Spark."""
        names = [c if isinstance(c, str) else self._plain(c) for c in columns]
        kept = tuple(
            Named(f.name, column(f.name, f.type))
            for f in self._node.schema
            if not any(self._same(n, f.name) for n in names)
        )
        return self._project(kept)

    def _plain(self, one: Column) -> str:
        """The name of the column that a Column just is."""
        (named,) = self._analyser.columns(self._node.schema, [self._placed(one)])
        return plain_column(named.expr) or named.name

    def toDF(self, *cols: str) -> Stream:
        """The same columns under new names, one for each, in order."""
        from slackwater.surface.columns import renamed_all

        return self._project(renamed_all(self._node.schema, cols))

    def fillna(
        self,
        value: bool | float | str | Mapping[str, bool | float | str],
        subset: str | Sequence[str] | None = None,
    ) -> Stream:
        """Nulls, and NaN, replaced by a value in the columns that it fits, or by one value per column.

        As in Spark a number fits numeric columns, a text string columns, a bool boolean ones; other columns of
        ``subset`` stay as they are. A mapping gives the value of each column. A progressing column cannot be filled.
        """
        from slackwater.surface.filling import filled

        columns = filled(self, value, subset)
        return self if columns is None else self._project(columns)

    def transform(self, func: Callable[..., Stream], *args: Any, **kwargs: Any) -> Stream:
        """``func(stream, *args, **kwargs)``, so that functions on streams can be chained."""
        result = func(self, *args, **kwargs)
        if not isinstance(result, Stream):
            raise AnalysisError(
                "NOT_A_STREAM",
                f"the function of transform returned a {type(result).__name__}, not a stream",
                hint="return the stream that the function makes",
            )
        return result

    def alias(self, name: str) -> Stream:
        """The same stream under another name, which tells its columns apart in a join."""
        if not isinstance(name, str) or not name:
            raise AnalysisError("BAD_OPTION", f"alias {name!r} is not a name", hint="give a text")
        check_names([name], "stream", "give the stream another alias")
        origin = Origin(self, {c: c for c in self.columns}, alias=True)
        return Stream(self._node, self._inputs, self._analyser, self._spark, name, (origin,))

    def _project(self, columns: tuple[Named, ...]) -> Stream:
        check_twice(
            [c.name for c in columns], "give each column a name of its own with .alias(...)"
        )
        times, origins = progressing(self._node, self._analyser, columns)
        # Rows that go to a sink may do without a time; who needs one says that it is gone.
        origins = origins or unnamed_origin(self._node)
        schema = tuple(Field(c.name, c.expr.type) for c in columns)
        return self._with(Project(schema, times, self._node, columns, origins))

    # ---- several streams ----
    def union(self, other: Stream) -> Stream:
        """Rows of both, columns by position; holds no rows, and its bound is the lesser one."""
        return by_position(self, other)

    unionAll = union

    def unionByName(self, other: Stream, allowMissingColumns: bool = False) -> Stream:
        """Rows of both, columns by name; with ``allowMissingColumns`` missing ones are null."""
        return by_name(self, other, allowMissingColumns)

    def _restricted(self, times: Sequence[str]) -> Stream:
        """The same rows, progressing on the named columns only, in that order."""
        if [t.name for t in self._node.times] == list(times):
            return self
        by_name = {t.name: t for t in self._node.times}
        items = tuple(Named(f.name, column(f.name, f.type)) for f in self._node.schema)
        node = Project(
            self._node.schema, tuple(by_name[n] for n in times), self._node, items,
            tuple((n, n, 0) for n in times),
        )  # fmt: skip
        return self._with(node)

    def join(
        self,
        other: Stream | Relation,
        on: Any = None,
        within: Any = None,
        how: str = "inner",
        where: Column | str | ConditionSpec | Callable[..., Any] | None = None,
        memory: str | int | None = None,
        emit: str = "immediate",
        times: Sequence[str] | None = None,
        deadline: Any = None,
        markDelayed: bool = False,
        hold: Any = None,
    ) -> Stream:
        """Pairs of rows with equal keys that are near each other in time; or rows with those of a relation that have their key.

        Exact under any disorder: each pair comes out once, in the batch in which the later of the two
        arrives; a row is kept only as long as the other stream's bound says that a partner may come.

        Parameters
        ----------
        on
            Names of key columns, pairs ``("left name", "right name")``, conditions such as
            ``"a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS"`` or ``a.k == b.k``, a list of these.
            None: any two rows that are near enough.
        within
            ``sw.band(before=..., after=...)``, or ``sw.window(...)`` for rows of the same tumbling window. Left out
            where the condition says how near the two times must be. None where it does not: rows join at any distance,
            and are kept until punctuation of the other stream closes their keys.
        how
            inner, left, right or full; an unmatched row leaves when no partner can come any more. left_semi: rows of this
            stream that have a partner, each once, when its first one arrives; left_anti: those that have none, when none
            can come any more.
        where
            A further condition over the result's columns, part of the match; or a function on Arrow columns, see
            `sw.condition`. Of left_semi and left_anti it is over the columns that an inner join would have.
        memory
            What one partition-group may hold, such as ``"256m"``; the result is the same for any value.
        emit
            ``"immediate"``, or ``"ordered"`` to have results in order of time.
        times
            The time column of each side, where not the first.
        deadline
            With ``memory``: how long a pair may wait for a pass over the rows on disk, such as ``"10 seconds"``;
            ``"0 seconds"`` probes the disk in every batch. With a relation: how long a row may wait, by the query's clock, for a part of a
            table larger than memory to be read, so that one read serves many; by default rows do not wait.
        markDelayed
            With ``memory``: add a column ``_delayed``, which is true if a pair came later than its rows, from a pass over the rows
            on disk.
        hold
            With a relation (`sw.relation`): how long a row without a partner waits for a version that has one, by the
            stream's first time. Of the other parameters ``on``, ``how``, ``where``, ``deadline`` and ``emit`` go with a relation.
        """
        from slackwater.surface.join import join_streams
        from slackwater.surface.operands import bad_join
        from slackwater.surface.relation import Relation

        if isinstance(other, Relation):
            from slackwater.surface.relation_join import join_relation

            return join_relation(
                self, other, on, how, where, hold, emit,  # type: ignore[arg-type]
                within=within, memory=memory, times=times, deadline=deadline, markDelayed=markDelayed,
            )  # fmt: skip
        if hold is not None:
            raise bad_join(
                "hold", hold, "rows are held for a relation: other must be sw.relation(...)"
            )
        return join_streams(
            [self, other], on, within, how, where, memory, emit, times, deadline, markDelayed
        )

    # ---- operators with state ----
    def dropDuplicates(
        self, subset: Sequence[str] | None = None, *, within: Any = None, on: str | None = None
    ) -> Stream:
        """The first row of each combination of ``subset`` values.

        The subset must hold the time column, or ``within`` must say how far apart duplicates can be: else
        the state could never be purged.
        """
        names = list(dict.fromkeys(self._column(c) for c in (subset or self.columns)))
        time = self._time(on, "dropDuplicates")
        span = None if within is None else parse_span(within, time, what="within")
        # Equal rows have equal times if all columns that make up the time are compared.
        if span is None and not all(c.name in names for c in leaves(time)):
            raise AnalysisError(
                "UNBOUNDED_STATE",
                f"dropDuplicates({', '.join(names)}) would have to remember every row for ever",
                hint=f"add {_times_of(time)} to the subset, or give "
                'within="10 minutes": how far apart in time duplicates can be',
                column=time.name,
            )
        node = Dedup(self._node.schema, self._node.times, self._node, tuple(names), span, time.name)
        return self._with(node)

    drop_duplicates = dropDuplicates

    def distinct(self) -> Stream:
        """The first of rows that are equal in all columns.

        Equal rows have equal times, so what was seen is forgotten when the bound has passed it.
        """
        return self.dropDuplicates()

    def dropDuplicatesWithinWatermark(self, subset: Sequence[str], within: Any) -> Stream:
        """Alias of ``dropDuplicates(subset, within=...)``."""
        return self.dropDuplicates(subset, within=within)

    def sort(self, on: str | None = None) -> Stream:
        """Rows in order of time; a row leaves when the bound has passed it.

        The result progresses on that time alone: rows that wait may be old by another.
        """
        time = self._time(on, "sort")
        return self._with(Sort(self._node.schema, (time,), self._node, time.name))

    orderBy = sort

    def pace(self, limit: Any, *, on: str | None = None, clock: bool = False) -> Stream:
        """The rows that are not too old to be of use: at most ``limit`` behind the newest time of the stream.

        The newest time is that of when the batch began. The result waits for no row that is older, so a branch that lags
        behind holds nobody back, and inputs need not read such rows. The rows that are dropped are its stream ``late``.

        Parameters
        ----------
        limit
            A duration such as ``"5 minutes"``, or a number where times are integers.
        on
            The progressing column; the first by default.
        clock
            Whether the clock counts as one more time, so that all rows that are too old by it are dropped at once.
        """
        from slackwater.surface.pace import with_pace

        return with_pace(self, limit, on=on, clock=clock)

    def withQuality(self, policy: Policy) -> Stream:
        """The same result under a target or slack of its own; other results of the same streams keep theirs.

        ``policy`` is a target such as ``sw.Quality(error=0.01)``, or a fixed slack such as
        ``sw.BoundedDelay("5 seconds")``. Results that are started together still read each row once.
        """
        from slackwater.surface.slack import with_policy

        return with_policy(self, policy)

    def withFeedback(
        self,
        *,
        exploit: bool = True,
        propagate: bool = True,
        log: bool = False,
        seal: bool | None = None,
    ) -> Stream:
        """The same stream, whose operator deals with feedback as said: the operator whose rows these are.

        Parameters
        ----------
        exploit
            False: it drops no rows and keeps no results back itself.
        propagate
            False: nothing that its consumers ignore goes on to its inputs.
        log
            True: ``lastProgress["feedback"]["log"]`` counts its rows that come in, are dropped, and go out. For streams and
            operators that hold state.
        seal
            Of an aggregate, whether later rows of a group are dropped when the rows of a pane prove that nobody wants its
            results. None: over joins, where that pays.

        Examples
        --------
        >>> sums = sums.withFeedback(propagate=False)     # doctest: +SKIP
        """
        from slackwater.surface.feedback import reacting

        node = replace(self._node, reacting=reacting(self._node, exploit, propagate, log, seal))
        return self._with(node, Origin(self, {c: c for c in self.columns}))

    def groupBy(self, *keys: Column | str | Windowing) -> GroupedStream:
        """Groups for ``agg``: any columns, and one window; after a join one window for each of several times."""
        from slackwater.surface.grouped import GroupedStream

        return GroupedStream(self, keys)

    groupby = groupBy

    # ---- running ----
    @property
    def writeStream(self) -> StreamWriter:
        """Where the rows go, as DataFrame.writeStream."""
        from slackwater.surface.writer import StreamWriter

        return StreamWriter(self)

    def preview(self, n: int = 20, seconds: float = 10) -> list[Row]:
        """Run on a checkpoint of its own and return up to ``n`` result rows.

        It runs until they are there, or for ``seconds`` after its first batch and until the batch that runs then is
        done. If there are no rows it prints why: what was read, the bound, and what completes the first result.
        """
        from slackwater.surface.preview import preview

        for what, value, least in (("n", n, 1), ("seconds", seconds, 0)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
                raise AnalysisError(
                    "BAD_OPTION",
                    f"preview: {what}={value!r} is not possible",
                    hint="give how many rows to show and for how many seconds, as in preview(20, 10)",
                )
        return preview(self, n, seconds)

    # ---- inside ----
    @property
    def _label(self) -> str | None:
        """The name by which a join tells its columns apart."""
        from slackwater.surface.join import label_of

        return self._alias or label_of(self._node)

    def _column_type(self, name: str) -> str:
        return next(f.type for f in self._node.schema if f.name == name)

    def _time(self, on: str | None, asking: str) -> TimeColumn:
        """The progressing column of that name, or the first; ``asking`` is who needs it."""
        if not self._node.times or stands_still(self._node):
            raise no_time(self._node, asking)
        if on is None:
            return self._node.times[0]
        if not isinstance(on, str):
            raise AnalysisError(
                "NOT_PROGRESSING",
                f"{on!r} is not the name of a progressing column",
                hint=f"give a name as a text, one of: {', '.join(self.timeColumns)}",
            )
        # After a join there is no column for the time of a result itself.
        kind = {"max": "greatest", "min": "least"}.get(on.lower())
        # A column of that name comes first: "max" may be one of the user's.
        named = [t for t in self._node.times if t.name.lower() == on.lower()]
        named += [t for t in self._node.times if t.parts and t.kind == kind]
        time = next(iter(named), None)
        if time is None:
            have = ", ".join(t.name for t in self._node.times)
            raise AnalysisError(
                "NOT_PROGRESSING",
                f"'{on}' is not a progressing column of the stream",
                hint=f"use one of: {have}; or declare it where the stream is made: "
                f'progress={{"{on}": ...}}',
                column=on,
            )
        return time

    def _column(self, name: str) -> str:
        column = next((f.name for f in self._node.schema if self._same(name, f.name)), None)
        if column is None:
            raise AnalysisError(
                "COLUMN_NOT_FOUND",
                f"there is no column '{name}'",
                hint=f"use one of: {', '.join(self.columns)}",
                name=name,
            )
        return column

    def _same(self, one: str, other: str) -> bool:
        """Whether two names are one to the session."""
        if self._analyser.meaning.case_sensitive:
            return one == other
        return one.lower() == other.lower()

    def _text(self) -> str:
        return "\n".join(render(self._node, policies=True))


def _times_of(time: TimeColumn) -> str:
    """The columns of a time, for a hint."""
    names = [f"'{c.name}'" for c in leaves(time)]
    return f"the time column{'s' if len(names) > 1 else ''} {' and '.join(names)}"
