"""Transcripts: a query, what arrives, and what must come out, as YAML.

A transcript runs on any *executor*: a function from a `Transcript` to one `Observed` per batch. The
same file thus holds the oracle, the kernels and Spark to the same answer.

.. code-block:: yaml

    name: sliding count
    spec: [WQ-F13]                  # features that this proves
    streams:
      s:
        columns: {g: string, ts: bigint, v: bigint}
        time: ts
        progress: {bounded_delay: 5}
    query:
      - from: s
      - where: v > 0
      - window: {range: 10, slide: 5}
        by: [g]
        agg: {n: count(*), total: sum(v)}
    script:
      - rows: {s: [[a, 1, 10], [b, 4, 20]]}
        expect_bounds: {s: -1}
      - end: true
        expect: [[a, 0, 1, 10], [a, 1, 1, 10], [b, 0, 1, 20], [b, 1, 1, 20]]

``docs/transcripts.md`` describes every key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from slackwater.errors import LateRowError, SlackwaterError
from slackwater.model.node import Node, Source
from slackwater.model.relation import Relation
from slackwater.model.schema import Field
from slackwater.model.time import Kind, TimeColumn, parse_duration, parse_instant
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.text import parsed
from slackwater.semantics.feedback.value import Feedback
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.nodes import Oracle
from slackwater.testing.transcripts.instrument import Instrument
from slackwater.testing.transcripts.lookup import build_relation
from slackwater.testing.transcripts.query import PATTERN, QueryBuilder, build_source
from slackwater.testing.transcripts.windows import bad

Row = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One batch, or a crash between two.

    ``now`` is the clock in microseconds, or None; ``end`` the streams that end with the batch.
    ``expect_late`` is by stream, a number or rows; ``expect_bounds`` by stream and column. ``tables`` are the rows of each
    relation in this batch. ``feedback`` is sent, and what is named in ``retract`` ends, before the batch.
    """

    number: int
    rows: Mapping[str, list[Row]] = field(default_factory=dict)
    now: int | None = None
    end: frozenset[str] = frozenset()
    crash: bool = False
    expect: Mapping[str, list[Row]] = field(default_factory=dict)
    expect_late: Mapping[str, int | list[Row]] = field(default_factory=dict)
    expect_bounds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    expect_error: str | None = None
    tables: Mapping[str, list[Row]] = field(default_factory=dict)
    feedback: tuple[SentFeedback, ...] = ()
    retract: tuple[str, ...] = ()


@dataclass(frozen=True)
class SentFeedback:
    """Feedback that a step sends before its batch, under a name."""

    name: str
    output: str
    feedback: Feedback


@dataclass(frozen=True)
class Output:
    """An output and how it is compared: on which columns, and whether the order of rows counts.

    With ``total`` it does not matter in which batch a row comes.
    """

    name: str
    node: Node
    columns: tuple[str, ...]
    ordered: bool = False
    total: bool = False


@dataclass(frozen=True)
class Transcript:
    """A transcript, read and checked."""

    name: str
    spec: tuple[str, ...]
    sources: Mapping[str, Source]
    outputs: Mapping[str, Output]
    steps: tuple[Step, ...]
    text: Mapping[str, Any]
    relations: Mapping[str, Relation] = field(default_factory=dict)

    @property
    def batches(self) -> list[Step]:
        """The steps that are batches."""
        return [s for s in self.steps if not s.crash]

    @property
    def all_feedback(self) -> list[SentFeedback]:
        """All feedback of the script."""
        return [f for s in self.steps for f in s.feedback]


@dataclass(frozen=True)
class Observed:
    """What an executor saw of one batch.

    ``outputs`` and ``late`` are rows by output and by stream; a ``window`` is a mapping or an object
    with ``start`` and ``end``; times are ints. ``bounds`` is by stream and column. ``error`` is the
    condition with which the query failed, ``message`` is for people; nothing follows then. An executor that ``heeds`` feedback
    leaves out what is expected to be left out; of others the rows that were given up may be more.
    """

    outputs: Mapping[str, Sequence[Mapping[str, Any]]]
    late: Mapping[str, Sequence[Mapping[str, Any]]]
    bounds: Mapping[str, Mapping[str, int]]
    error: str | None = None
    message: str = field(default="", compare=False)
    heeds: bool = False

    @classmethod
    def failed(cls, error: SlackwaterError) -> Observed:
        """A batch that did not come to its end."""
        return cls({}, {}, {}, error.condition, str(error))


Executor = Callable[[Transcript], Sequence[Observed]]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C, where it was built, is ten times as fast."""


def load(path: str | Path) -> Transcript:
    """Read a transcript from a file."""
    with open(path, encoding="utf-8") as f:
        return parse(yaml.load(f, _LOADER))


def parse(text: Mapping[str, Any]) -> Transcript:
    """A transcript from the mapping that its YAML is."""
    known = {
        "name", "spec", "about", "streams", "relations", "query", "check", "clock", "zone", "instrument",
        "script",
    }  # fmt: skip
    if unknown := set(text) - known:
        raise bad(f"unknown keys {sorted(unknown)}", f"use: {sorted(known)}")
    zone = str(text.get("zone", "UTC"))
    sources = {n: build_source(n, s, zone) for n, s in text["streams"].items()}
    query = text["query"]
    queries = query if isinstance(query, Mapping) else {"out": query}
    relations = {n: build_relation(n, r) for n, r in text.get("relations", {}).items()}
    builder = QueryBuilder(sources, queries, relations)
    check = text.get("check", {})
    outputs = {}
    for name in queries:
        node = builder.named(name)
        how = check.get(name, {})
        names = [f.name for f in node.schema if f.name != "window"]
        columns = tuple(how.get("columns", names))
        outputs[name] = Output(
            name, node, columns, bool(how.get("ordered", False)), bool(how.get("total", False))
        )
    script = _Script(sources, outputs, relations, text.get("clock"), zone)
    steps = script.steps(text["script"])
    for name, spec in text.get("instrument", {}).items():
        if name not in outputs:
            raise bad(f"instrument: '{name}' is no output", f"name: {list(outputs)}")
        steps = _instrumented(steps, outputs[name], Instrument.of(outputs[name].node, spec, zone))
    return Transcript(
        text["name"], tuple(text.get("spec", ())), sources, outputs, tuple(steps), text, relations
    )


def _instrumented(steps: Sequence[Step], output: Output, instrument: Instrument) -> list[Step]:
    """Steps with the feedback that a test operator at an output issues on the way."""
    batches = [s for s in steps if not s.crash]
    each = iter(instrument.issued([s.expect.get(output.name, ()) for s in batches]))
    made, count = [], 0
    for step in steps:
        sent = [] if step.crash else next(each)
        names = [f"instrument-{output.name}-{count + i}" for i in range(1, len(sent) + 1)]
        count += len(sent)
        more = (SentFeedback(n, output.name, f) for n, f in zip(names, sent, strict=True))
        made.append(replace(step, feedback=(*step.feedback, *more)))
    return made


def run(transcript: Transcript, executor: Executor) -> None:
    """Run a transcript and compare; an `AssertionError` tells the batch and both multisets."""
    observed = list(executor(transcript))
    totals: dict[str, list[list[Any]]] = {n: [[], []] for n in transcript.outputs}
    deaf = bool(transcript.all_feedback) and not all(o.heeds for o in observed)
    if deaf:
        _compare_range(transcript, observed)
    for step, seen in zip(transcript.batches, observed, strict=False):
        where = f"{transcript.name}, step {step.number}"
        assert seen.error == step.expect_error, f"{where}: error {seen.message or seen.error}"
        if step.expect_error:
            return
        for name, output in transcript.outputs.items():
            if deaf:
                continue
            got = [_projected(r, output.columns) for r in seen.outputs.get(name, ())]
            wanted = [_projected(r, output.columns) for r in step.expect.get(name, ())]
            if output.total:
                totals[name] = [a + b for a, b in zip(totals[name], (got, wanted), strict=True)]
                continue
            _compare(f"{where}: output '{name}' {output.columns}", got, wanted, output.ordered)
        for name in transcript.sources:
            _compare_late(where, name, list(seen.late.get(name, ())), step.expect_late.get(name, 0))
        for name, columns in step.expect_bounds.items():
            for column, wanted_bound in columns.items():
                got_bound = seen.bounds[name][column]
                assert got_bound == wanted_bound, (
                    f"{where}: bound of {name}.{column} is {got_bound}, expected {wanted_bound}"
                )
    assert len(observed) == len(transcript.batches), (
        f"{transcript.name}: {len(observed)} batches ran of {len(transcript.batches)}"
    )
    for name, (got, wanted) in totals.items():
        where = f"{transcript.name}, all batches: output '{name}'"
        _compare(where, got, wanted, transcript.outputs[name].ordered)


def _compare_range(transcript: Transcript, observed: Sequence[Observed]) -> None:
    """What is expected must lie between all results and those that nobody gave up, over all batches."""
    for name, output in transcript.outputs.items():
        all_feedback = [f.feedback for f in transcript.all_feedback if f.output == name]
        got = [r for seen in observed for r in seen.outputs.get(name, ())]
        left = [
            _projected(r, output.columns)
            for s in transcript.batches
            for r in s.expect.get(name, ())
        ]
        lost = []
        for row in got:
            cells = _projected(row, output.columns)
            if cells in left:
                left.remove(cells)
            elif not any(f.matches(row) for f in all_feedback):
                lost.append(cells)
        where = f"{transcript.name}, output '{name}' {output.columns}, in all batches"
        assert not left, f"{where}: expected, and no result without feedback: {left}"
        assert not lost, f"{where}: not expected, although nobody gave it up: {lost}"


def oracle(transcript: Transcript) -> list[Observed]:
    """The executor that is the definition."""
    machine = Oracle({n: o.node for n, o in transcript.outputs.items()})
    read = {n.name for n in machine.nodes if isinstance(n, Source)}
    seen: list[Observed] = []
    for step in transcript.batches:
        rows = {n: r for n, r in step.rows.items() if n in read}
        try:
            result = machine.step(rows, step.now, step.end, step.tables)
        except LateRowError as e:
            return [*seen, Observed.failed(e)]
        seen.append(Observed(result.outputs, result.late_rows, result.bounds))
    return seen


class _Script:
    """Reads steps: keeps the clock and knows the types of all columns."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        outputs: Mapping[str, Output],
        relations: Mapping[str, Relation],
        clock: Any,
        zone: str,
    ):
        self.relations = relations
        self.tables: dict[str, list[Row]] = {}
        self.sources = sources
        self.outputs = outputs
        self.zone = zone
        self.now = None if clock is None else _instant(clock, "timestamp", zone)

    def steps(self, script: Sequence[Mapping[str, Any]]) -> list[Step]:
        return [self._step(i, dict(s)) for i, s in enumerate(script, 1)]

    def _step(self, number: int, step: dict[str, Any]) -> Step:
        known = {
            "rows", "tick", "end", "crash", "expect", "expect_late", "expect_bounds",
            "expect_error", "about", "relations", "feedback", "retract",
        }  # fmt: skip
        if unknown := set(step) - known:
            raise bad(f"step {number}: unknown keys {sorted(unknown)}", f"use: {sorted(known)}")
        if step.get("crash"):
            return Step(number, crash=True)
        if "tick" in step:
            if self.now is None:
                raise bad(f"step {number}: tick without a clock", "say where it starts: clock: 0")
            self.now += _span(step["tick"])
        rows = {n: self._rows(n, r) for n, r in step.get("rows", {}).items()}
        for name, table in step.get("relations", {}).items():
            fields = self.relations[name].fields
            cells = [_cells(r, [f.name for f in fields], fields, self.zone) for r in table]
            self.tables = {**self.tables, name: cells}
        end = step.get("end", False)
        ended = frozenset(self.sources if end is True else end or ())
        expect = step.get("expect", {})
        if isinstance(expect, list):
            expect = {next(iter(self.outputs)): expect}
        late = step.get("expect_late", {})
        if isinstance(late, int):
            late = {next(iter(self.sources)): late}
        return Step(
            number,
            rows,
            self.now,
            ended,
            False,
            {n: self._expected(n, r) for n, r in expect.items()},
            {n: r if isinstance(r, int) else [dict(x) for x in r] for n, r in late.items()},
            {n: self._bounds(n, b) for n, b in step.get("expect_bounds", {}).items()},
            step.get("expect_error"),
            self.tables,
            tuple(self._sent_feedback(number, n, f) for n, f in step.get("feedback", {}).items()),
            tuple(step.get("retract", ())),
        )

    def _sent_feedback(self, number: int, name: str, given: Any) -> SentFeedback:
        """Records as text, of the first output, or of the one that is named."""
        given = given if isinstance(given, Mapping) else {"records": given}
        output = given.get("output", next(iter(self.outputs)))
        if output not in self.outputs:
            raise bad(f"step {number}: '{output}' is no output", f"name: {list(self.outputs)}")
        columns = Columns.of(self.outputs[output].node, self.zone)
        return SentFeedback(name, output, parsed(given["records"], columns))

    def _rows(self, name: str, rows: Sequence[Any]) -> list[Row]:
        if name not in self.sources:
            raise bad(f"rows for '{name}', which is no stream", f"name: {list(self.sources)}")
        schema = self.sources[name].schema
        return [_cells(row, [f.name for f in schema], schema, self.zone) for row in rows]

    def _expected(self, name: str, rows: Sequence[Any]) -> list[Row]:
        output = self.outputs[name]
        return [_cells(row, output.columns, output.node.schema, self.zone) for row in rows]

    def _bounds(self, name: str, given: Any) -> dict[str, int]:
        times = {t.name: t for t in self.sources[name].times}
        if not isinstance(given, Mapping):
            given = {next(iter(times)): given}
        ends = {"start": START, "end": END}
        return {
            c: ends[v]
            if isinstance(v, str) and v in ends
            else parse_instant(v, times[c], self.zone, what="bound")
            for c, v in given.items()
        }


def _cells(row: Any, names: Sequence[str], schema: Sequence[Field], zone: str) -> Row:
    if not isinstance(row, Mapping):
        if len(row) != len(names):
            raise bad(f"row {row!r} has {len(row)} cells", f"give {len(names)}: {list(names)}")
        row = dict(zip(names, row, strict=True))
    types = {f.name: f.type for f in schema}
    for f in schema:
        if f.type.startswith("struct<start:"):
            inner = f.type.removeprefix("struct<start:").split(",")[0]
            types[f"{f.name}.start"] = types[f"{f.name}.end"] = inner
    return {n: _read(v, types.get(n, ""), zone) for n, v in row.items()}


def _read(value: Any, type: str, zone: str) -> Any:
    if value is None:
        return None
    if type in ("timestamp", "timestamp_ntz"):
        return _instant(value, type, zone)  # type: ignore[arg-type]
    return pattern(value) if type == PATTERN else value


def pattern(tests: Mapping[str, Any]) -> dict[str, dict[str, str | None]]:
    """A pattern as a column holds it. A test is a value, or a list of an operation and what goes with it.

    >>> pattern({"g": "a", "ts": ["<", 10], "v": ["in", [1, 2]], "w": None})["v"]
    {'op': 'in', 'value': '[1, 2]'}
    """
    found: dict[str, dict[str, str | None]] = {}
    for column, test in tests.items():
        op, value = test if isinstance(test, list) else ("is null" if test is None else "=", test)
        if isinstance(value, list):
            value = json.dumps(value)
        found[column] = {"op": op, "value": None if value is None else str(value)}
    return found


def _instant(value: Any, kind: Kind, zone: str) -> int:
    """Microseconds of a timestamp; a number is seconds since the epoch."""
    if isinstance(value, int | float):
        return round(value * 1_000_000)
    return parse_instant(value, TimeColumn("", kind, 1), zone, what="timestamp")


def _span(value: Any) -> int:
    return value * 1_000_000 if isinstance(value, int) else parse_duration(value, what="tick")


def _projected(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(_canonical(_cell(row, c)) for c in columns)


def _cell(row: Mapping[str, Any], column: str) -> Any:
    if column in row:
        return row[column]
    name, _, part = column.partition(".")
    value = row[name]
    return value[part] if isinstance(value, Mapping) else getattr(value, part)


def _canonical(value: Any) -> Any:
    """Equal for what counts as equal: floats to nine digits, whole floats as ints."""
    if isinstance(value, float):
        value = float(f"{value:.9g}")
        return int(value) if value.is_integer() else value
    return value


def _compare(where: str, got: list[Any], wanted: list[Any], ordered: bool) -> None:
    if ordered:
        assert got == wanted, f"{where}\n  got      {got}\n  expected {wanted}"
        return
    missing, unexpected = list(wanted), []
    for row in got:
        if row in missing:
            missing.remove(row)
        else:
            unexpected.append(row)
    assert not missing and not unexpected, (
        f"{where}\n  missing    {missing}\n  unexpected {unexpected}"
    )


def _compare_late(where: str, name: str, got: list[Any], wanted: int | list[Row]) -> None:
    if isinstance(wanted, int):
        assert len(got) == wanted, (
            f"{where}: {len(got)} late rows of '{name}', expected {wanted}: {got}"
        )
        return
    columns = tuple(dict.fromkeys(c for row in wanted for c in row))
    _compare(
        f"{where}: late rows of '{name}' {columns}",
        [_projected(r, columns) for r in got],
        [_projected(r, columns) for r in wanted],
        ordered=False,
    )
