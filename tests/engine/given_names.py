"""Queries that say the same under any names: texts have plain names in braces, which are given others.

There is no Spark: expressions go through the translator, nodes are built as the surface builds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from slackwater.kernels.translate import translate
from slackwater.model.aggregate import Primitive
from slackwater.model.arrival import at_source, with_order
from slackwater.model.names import ours
from slackwater.model.node import (
    LATE_FIELDS,
    Aggregate,
    Dedup,
    Filter,
    Join,
    Late,
    Node,
    Project,
    Sort,
    Source,
    Union,
)
from slackwater.model.policy import BoundedDelay, Policy
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import (
    ByTuple,
    CustomWindow,
    JointWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
    all_time,
)
from slackwater.testing.transcripts.join import build_join

NUMBERS = ("ts", "tb", "k", "v", "x", "y", "seq")
EXTRA = tuple(f"extra{i}" for i in range(40))
"""Columns that nothing is made of, and that go along with the rows."""
STRUCTS = ("s", "p", "u")
MORE = ("w", "w2", "n", "total", "low", "key", "key2", "left", "right", "third", "stream")
"""Windows, aliases and streams."""
PLAIN = (*NUMBERS, *STRUCTS, *MORE, *EXTRA)

PATTERNS = "map<string,struct<op:string,value:string>>"


class Given:
    """The names that plain ones are given, and what is built of them."""

    def __init__(self, names: Mapping[str, str] | None = None, patterns: bool = False):
        self.names = {p: p for p in PLAIN} | dict(names or {})
        self.patterns = patterns
        quoted = {p: _backquoted(n) for p, n in self.names.items()}
        self._quoted = quoted
        pair = ",".join(f"{_plainly(self.names[f])}:bigint" for f in ("x", "y"))
        fields = [Field(self.names[c], "bigint") for c in NUMBERS]
        fields += [Field(self.names[c], f"struct<{pair}>") for c in STRUCTS]
        fields += [Field(self.names[c], "bigint") for c in EXTRA]
        if patterns:
            fields.append(Field(self.names["third"], PATTERNS))
        self.fields = tuple(fields)

    def name(self, plain: str) -> str:
        return self.names[plain]

    # ---- rows ----
    def table(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Rows with numbers by plain name; each struct has x and y of its own, made of the row's."""
        columns: dict[str, Any] = {
            self.names[c]: pa.array([r[c] for r in rows], pa.int64()) for c in NUMBERS
        }
        pair = pa.struct([(self.names[f], pa.int64()) for f in ("x", "y")])
        for i, c in enumerate(STRUCTS):
            made = [
                {self.names["x"]: (r["v"] + i) % 4, self.names["y"]: 10 * r["v"] + i} for r in rows
            ]
            columns[self.names[c]] = pa.array(made, pair)
        for i, c in enumerate(EXTRA):
            columns[self.names[c]] = pa.array([100 * r["v"] + i for r in rows], pa.int64())
        if self.patterns:
            kind = pa.map_(pa.string(), pa.struct([("op", pa.string()), ("value", pa.string())]))
            tests = [
                None
                if r.get("ends") is None
                else [(self.names["k"], {"op": "=", "value": str(r["ends"])})]
                for r in rows
            ]
            columns[self.names["third"]] = pa.array(tests, kind)
        return pa.table(columns)

    # ---- expressions and operators ----
    def expr(self, text: str, schema: Sequence[Field]) -> Expr:
        sql = text.format_map(self._quoted)
        done = translate(sql, {f.name: f.type for f in schema}, ansi=True, zone="UTC")
        return Expr(sql, done.type, done.duck)

    def source(
        self, *, times: Sequence[str] = ("ts",), policy: Policy | None = None, **more: Any
    ) -> Source:
        columns = tuple(TimeColumn(self.names[t], "long", 1_000_000) for t in times)
        policies = (policy or BoundedDelay(5),) * len(columns)
        return Source(self.fields, columns, self.names["stream"], 0, policies, **more)

    def where(self, node: Node, text: str) -> Filter:
        return Filter(node.schema, node.times, node, self.expr(text, node.schema))

    def select(self, node: Node, **columns: str) -> Project:
        """Columns by plain name; those that are a time of the node keep its progress."""
        made = tuple(Named(self.names[n], self.expr(t, node.schema)) for n, t in columns.items())
        by_text = {_backquoted(t.name): t for t in node.times}
        times, origins = [], []
        for named in made:
            if named.expr.sql in by_text:
                old = by_text[named.expr.sql]
                times.append(replace(old, name=named.name))
                origins.append((named.name, old.name, 0))
        schema = tuple(Field(c.name, c.expr.type) for c in made)
        return Project(schema, tuple(times), node, made, tuple(origins))

    def union(self, *nodes: Node) -> Union:
        return Union(nodes[0].schema, nodes[0].times, nodes)

    def late(self, source: Source) -> Late:
        extra = [replace(f, type="bigint") if f.name == "_late_bound" else f for f in LATE_FIELDS]
        return Late((*source.schema, *extra), source.times, source)

    def sort(self, node: Node, on: str = "ts") -> Sort:
        time = next(t for t in node.times if t.name == self.names[on])
        return Sort(node.schema, (time,), node, time.name)

    def dedup(self, node: Node, *subset: str, within: int | None = None) -> Dedup:
        names = tuple(self.names[c] for c in subset)
        return Dedup(node.schema, node.times, node, names, within, self.names["ts"])

    def join(self, sides: Sequence[Node], *, where: str | None = None, **more: Any) -> Join:
        labels = ("left", "right", "third")
        inputs = [
            {"as": self.names[label], "from": node}
            for label, node in zip(labels, sides, strict=False)
        ]
        step: dict[str, Any] = {
            "join": inputs,
            "keys": [self.names["k"]],
            "times": [self.names[t] for t in ("ts", "tb", "ts")[: len(sides)]],
            **more,
        }
        if where is not None:
            step["where"] = where
        return build_join(step, lambda node: node, self.expr)

    def agg(
        self,
        node: Node,
        window: Window,
        keys: Mapping[str, str],
        calls: Mapping[str, str],
        names: Sequence[str] = ("w",),
    ) -> Aggregate:
        """Groups and calls such as ``sum {v}`` by plain name; windows are called ``names``."""
        groups = tuple(Named(self.names[n], self.expr(t, node.schema)) for n, t in keys.items())
        primitives, outputs = [], []
        for i, (name, call) in enumerate(calls.items()):
            function, *arguments = call.split(" ", 1)
            args = tuple(self.expr(a, node.schema) for a in arguments)
            p = Primitive(f"_a{i}", function, args, "bigint")
            primitives.append(p)
            text = f"(`{p.column}` + 1L)" if i == 0 else f"`{p.column}`"
            fields = [Field(q.column, q.type) for q in primitives]
            outputs.append(Named(self.names[name], self.expr(text, fields)))
        has_id = not isinstance(window, SessionWindow | JointWindow)
        shown = [self.names.get(n, n) for n in names]
        schema = (
            *(Field(g.name, g.expr.type) for g in groups),
            *([Field("wid", "bigint")] if has_id else []),
            *(Field(n, "struct<start:bigint,end:bigint>") for n in shown),
            *(Field(o.name, o.expr.type) for o in outputs),
        )
        times = tuple(TimeColumn(n, "window", 1_000_000, True) for n in shown)
        return Aggregate(schema, times, node, groups, window, tuple(primitives), tuple(outputs))

    # ---- windows ----
    def time_window(self, range_: int, slide: int, on: str = "ts") -> TimeWindow:
        return TimeWindow(range_, slide, 0, self.names[on])

    def at_source(self, node: Node, range_: int) -> tuple[Node, RowWindow]:
        found = at_source(node)
        window = RowWindow(range_, range_, self.names["ts"], (), found.order, found.passing)
        return found.node, window

    def by_rows(self, node: Node, range_: int) -> tuple[Node, RowWindow]:
        found = with_order(node)
        per = (self.names["key"],)
        return found.node, RowWindow(range_, range_, self.names["ts"], per, found.order)

    def by_tuple(self, node: Node, range_: int) -> tuple[Node, ByTuple]:
        found = with_order(node)
        return found.node, ByTuple(range_, 2, "arrival", self.names["ts"], found.order)

    def other_windows(self) -> dict[str, Window]:
        """One of each type that needs nothing of its input, by the name of an output."""
        on = self.names["ts"]
        return {
            "sessions": SessionWindow(4, on),
            "landmark": Landmark(6, 3, on),
            "rank": ByTuple(8, 2, "rank", on),
            "custom": CustomWindow("fives", on, _windows, _extent, _wids),
        }

    def ungrouped(self, node: Node) -> Project:
        """Groups without a window, which punctuation completes."""
        made = self.agg(
            node, all_time(self.names["ts"]), {"k": "{k}"},
            {"total": "sum {s}.{y}", "n": "count"}, (ours("__window"),),
        )  # fmt: skip
        hidden = (ours("__window"), "wid")
        schema = tuple(f for f in made.schema if f.name not in hidden)
        kept = tuple(Named(f.name, column(f.name, f.type)) for f in schema)
        return Project(schema, (), made, kept, ())


def _windows(low: int, high: int) -> Any:
    import numpy as np

    return np.arange(low // 5, (high - 1) // 5 + 1)


def _extent(ids: Any) -> tuple[Any, Any]:
    return ids * 5, ids * 5 + 5


def _wids(times: Any) -> tuple[Any, Any]:
    import numpy as np

    return np.arange(len(times)), times // 5


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _plainly(name: str) -> str:
    """A field's name as Spark writes it in a type."""
    return name if name.isascii() and name.replace("_", "a").isalnum() else _backquoted(name)
