"""Random aggregates over columns of all types and odd names, and what nobody wants of their results."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.model.aggregate import Primitive
from slackwater.model.duck_sql import quote
from slackwater.model.node import Aggregate, Filter, Node, Source, Union
from slackwater.model.policy import BoundedDelay
from slackwater.model.reacting import Reacting
from slackwater.model.schema import Expr, Field, Named
from slackwater.model.spark_sql import quoted
from slackwater.model.time import TimeColumn, window_time
from slackwater.model.window import TimeWindow
from slackwater.semantics.feedback import order
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.value import ANY, Feedback
from slackwater.semantics.patterns import Pattern, Test

NAMES = (
    "k", "a b", "it's", 'say "so"', "größe", "x.y", "tick`s", "_sw", "SELECT", "end", "window.end", "window.start",
)  # fmt: skip
VALUES: dict[str, Sequence[Any]] = {
    "bigint": (-(2**63), -1, 0, 1, 2**63 - 1),
    "int": (-5, 0, 7),
    "tinyint": (-128, 0, 127),
    "double": (math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, 1e300),
    "float": (math.nan, math.inf, -0.0, 0.0, 0.5),
    "decimal(5,2)": (Decimal("-1.50"), Decimal("0.00"), Decimal("999.99")),
    "decimal(38,0)": (Decimal(10**37 + 1), Decimal(10**37), Decimal(-1)),
    "string": ("", "a", "a\0", "it's", 'say "so"', "é", "\U0001f600"),
    "boolean": (False, True),
    "date": (-30000, -1, 0, 19000),
    "timestamp": (-62_000_000_000_000_000, -1, 0, 1_700_000_000_000_000),
    "timestamp_ntz": (-62_000_000_000_000_000, -1, 0, 1_700_000_000_000_000),
}
_ENGINE_TYPES = {"timestamp": "timestamptz", "timestamp_ntz": "timestamp"}


def plain(name: str, type: str) -> Expr:
    """A column as it is."""
    return Expr(quoted(name), type, quote(name))


def literal(value: Any, type: str, duck: bool) -> str:
    """A constant, as Spark's analyser writes it or as the column engine reads it."""
    if type in ("boolean", "string"):
        return str(value).lower() if type == "boolean" else "'" + value.replace("'", "''") + "'"
    text = str(value)
    if type == "date":
        text = (dt.date(1970, 1, 1) + dt.timedelta(days=value)).isoformat()
    elif type in _ENGINE_TYPES:
        at = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=value)
        text = at.replace(tzinfo=None).isoformat(" ") + ("+00:00" if type == "timestamp" else "")
    elif type in order.FLOATS:
        text = repr(value).replace("nan", "NaN").replace("inf", "Infinity")
    return f"CAST('{text}' AS {_ENGINE_TYPES.get(type, type) if duck else type})"


class Query:
    """An aggregate over one or two streams, with feedback on it, or with a filter ``above`` it that says the same."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.key, self.other, self.time, self.value, self.best, self.count = rng.sample(NAMES, 6)
        self.types = {
            self.key: rng.choice(list(VALUES)), self.other: "int",
            self.time: rng.choice(["bigint", "timestamp", "timestamp_ntz"]), self.value: rng.choice(list(VALUES)),
        }  # fmt: skip
        self.hot = self.some(self.key)
        self.greatest = rng.random() < 0.5
        self.sources, below = self._sources()
        self.node = self._aggregate(below)
        integer = self.types[self.time] == "bigint"
        self.base = rng.choice([0, -1_000_003, -(2**40) if integer else -62_135_000_000_000_000])
        self.batches = [self._rows(n) for n in range(rng.randint(3, 6))]
        self.above = self._filter() if rng.random() < 0.4 else None
        self.feedback = () if self.above is not None else self._feedback()

    @property
    def plan(self) -> Plan:
        outputs = [Output("map", self.above or self.node)]
        return passed(build(outputs, ansi=True, zone="UTC"), Written())

    def ignores(self, row: Any) -> bool:
        """Whether a row is given up by what was sent."""
        return any(f.matches(row) for f in self.feedback)

    def some(self, name: str) -> Any:
        return None if self.rng.random() < 0.15 else self.rng.choice(VALUES[self.types[name]])

    def _sources(self) -> tuple[list[Source], Node]:
        rng, type = self.rng, self.types[self.time]
        fields = tuple(Field(name, type) for name, type in self.types.items())
        time = TimeColumn(self.time, "long", None)
        delay: Any = rng.randint(0, 6)
        if type != "bigint":
            time, delay = TimeColumn(self.time, type, 1), f"{delay} microseconds"  # type: ignore[arg-type]
        late: Any = rng.choice(["admit", "drop"])
        made = [
            Source(fields, (time,), name, i, (BoundedDelay(delay=delay),), late)
            for i, name in enumerate("ab")
        ]
        if rng.random() < 0.3:
            return made, Union(fields, (time,), tuple(made))
        return made[:1], made[0]

    def _argument(self) -> Expr:
        """The value; a third of the time where a FILTER clause lets it through."""
        if self.rng.random() < 0.7:
            return plain(self.value, self.types[self.value])
        limit = self.rng.choice([-1, 0])
        sql, duck = (
            f"CASE WHEN {q(self.other)} > {limit} THEN {q(self.value)} END" for q in (quoted, quote)
        )
        return Expr(sql, self.types[self.value], duck)

    def _aggregate(self, below: Node) -> Aggregate:
        rng, time = self.rng, below.times[0]
        slide = rng.choice([2, 3, 5])
        span = rng.choice([slide, 2 * slide, slide + 1, slide + 3, max(1, slide - 1)])
        argument, type = self._argument(), self.types[self.value]
        counted = rng.choice([(), (argument,), (plain(self.other, "int"),)])
        primitives = (
            Primitive("_a0", "max" if self.greatest else "min", (argument,), type),
            Primitive("_a1", "count", counted, "bigint"),
        )
        names = (self.best, self.count)
        used = rng.choice([1, 2, 2])
        outputs = tuple(
            Named(n, plain(p.column, p.type)) for n, p in zip(names, primitives, strict=True)
        )[:used]
        chosen = rng.choice([[], *[[self.key]] * 5, *[[self.key, self.other]] * 3])
        keys = tuple(Named(n, plain(n, self.types[n])) for n in chosen)
        schema = (
            *(Field(k.name, k.expr.type) for k in keys), Field("wid", "bigint"),
            Field("window", f"struct<start:{time.type},end:{time.type}>"),
            *(Field(o.name, o.expr.type) for o in outputs),
        )  # fmt: skip
        return Aggregate(
            schema, (window_time("window", time),), below, keys,
            TimeWindow(span, slide, rng.randint(-2, 2), self.time), primitives[:used], outputs,
            reacting=Reacting(seal=rng.choice([True, True, None])),
        )  # fmt: skip

    def _rows(self, n: int) -> list[list[dict[str, Any]]]:
        """One group has most of the rows, and time passes slowly."""
        rng = self.rng

        def row() -> dict[str, Any]:
            at = self.base + n + rng.randint(-4, 4)
            return {
                self.key: self.hot if rng.random() < 0.7 else self.some(self.key),
                self.other: rng.choice([None, 0, 1]),
                self.time: None if rng.random() < 0.03 else at,
                self.value: self.some(self.value),
            }

        return [[row() for _ in range(rng.choice([0, 3, 9, 20]))] for _ in self.sources]

    def _limit(self, name: str) -> tuple[Any, str]:
        """A value of a column of the results, and its type."""
        type = next(f.type for f in self.node.schema if f.name == name)
        counts = name in (self.count, "wid")
        return self.rng.randint(0, 5) if counts else self.rng.choice(VALUES[type]), type

    def _feedback(self) -> tuple[Feedback, ...]:
        rng, columns = self.rng, Columns.of(self.node)
        anyhow = (order.from_, order.above, order.below, order.up_to, order.equal)
        made = []
        for _ in range(rng.choice([1, 1, 2])):
            tests: dict[str, Test] = {}
            names = [o.name for o in self.node.outputs]
            chosen = rng.sample(names, rng.choice([1, len(names)]))
            if self.node.keys and rng.random() < 0.4:
                chosen = [*chosen * (rng.random() < 0.7), rng.choice(self.node.keys).name]
            for name in chosen:
                rising = (order.from_, order.above)
                falling = (order.below, order.up_to)
                one_way = rising if name != self.best or self.greatest else falling
                how = one_way if name in names and rng.random() < 0.75 else anyhow
                test = rng.choice(how)(*self._limit(name))
                tests[name] = test | Test((), True) if rng.random() < 0.4 else test
            record = Pattern.of({n: t for n, t in tests.items() if t != ANY})
            if record.tests and not record.empty:
                made.append(Feedback.of([record], [columns.column([n]) for n in tests]))
        return tuple(made)

    def _filter(self) -> Node:
        """What passes a condition, as a user writes it above the aggregate."""
        rng, parts = self.rng, []
        for _ in range(rng.choice([1, 1, 2])):
            results = [o.name for o in self.node.outputs]
            name = rng.choice([*results, *results, *(k.name for k in self.node.keys), "wid"])
            value, type = self._limit(name)
            sign = rng.choice(["<", "<=", ">", ">=", "=", "<>"])
            if name in results and rng.random() < 0.7:
                rising = name != self.best or self.greatest
                sign = rng.choice(["<", "<="] if rising else [">", ">="])
            test = rng.choice([*[sign] * 4, "IS NULL", "IS NOT NULL"])
            turned = rng.choice(["", "", "", "NOT "])
            pair = []
            for duck, q in ((False, quoted), (True, quote)):
                word = test if test.startswith("IS") else f"{sign} {literal(value, type, duck)}"
                pair.append(f"({turned}({q(name)} {word}))")
            parts.append(pair)
        word = rng.choice([" AND ", " OR "])
        sql, duck_sql = (f"({word.join(pair[i] for pair in parts)})" for i in (0, 1))
        node = self.node
        return Filter(node.schema, node.times, node, Expr(sql, "boolean", duck_sql))
