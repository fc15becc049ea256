"""What is remembered of Spark's map-side aggregation, with a Spark played by hand: plans of nested classes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from slackwater.engine.lowlevel import map_side
from slackwater.engine.lowlevel.fused import Fused
from slackwater.engine.lowlevel.inputs import FrameInput
from slackwater.engine.lowlevel.map_side import partial_frame
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.plan.reading import JvmPartials, chosen
from slackwater.model.aggregate import Primitive
from slackwater.model.node import Aggregate, Source
from slackwater.model.policy import MaxDelay, Ordered
from slackwater.model.schema import Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import START
from tests.engine.test_low_table import FIELDS, counted

SOURCE = Source(FIELDS, (TimeColumn("ts", "long", None),), "s", 0, (Ordered(),))


@dataclass
class Java:
    """A node of a plan as py4j shows it; methods give what the fields hold."""

    kind: str
    below: list[Any] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)

    def getClass(self) -> Any:
        return SimpleNamespace(getSimpleName=lambda: self.kind)

    def children(self) -> Any:
        return SimpleNamespace(size=lambda: len(self.below), apply=self.below.__getitem__)

    def aggregateExpressions(self) -> Any:
        return SimpleNamespace(size=lambda: len(self.items), apply=self.items.__getitem__)

    def child(self) -> Any:
        return self.below[0]

    def schema(self) -> Any:
        columns = [
            {"name": n, "type": "long", "nullable": True, "metadata": {}} for n in self.fields
        ]
        text = json.dumps({"type": "struct", "fields": columns})
        return SimpleNamespace(size=lambda: len(self.fields), json=lambda: text)

    def execute(self) -> str:
        return "rows"


class Spark:
    """Plans ``SELECT a AS x, ... FROM (...) GROUP BY 1, ...`` as Spark does: equal aggregates are computed once."""

    def __init__(self) -> None:
        self.sparkSession = self
        self._sc = None
        self.shapes = 0
        settings = SimpleNamespace(contains=lambda key: True)
        self._jsparkSession = SimpleNamespace(
            internalCreateDataFrame=lambda rows, schema, stream: schema,
            parseDataType=self._parse,
            hashCode=lambda: 1,
            sessionState=lambda: SimpleNamespace(conf=lambda: settings),
        )

    def createOrReplaceTempView(self, name: str) -> None:
        pass

    def _parse(self, text: str) -> str:
        self.shapes += 1
        return text

    def sql(self, text: str) -> Any:
        groups = len(text.rpartition("GROUP BY")[2].split(","))
        selected = _items(text[len("SELECT ") :])
        named = [s.rsplit(" AS ", 1) for s in selected]
        first = [(e, n) for e, n in named[:groups]]
        buffers = list(dict.fromkeys(e for e, _ in named[groups:]))
        aliases = []
        for e, _ in named:
            same = SimpleNamespace(toString=lambda e=e: e)
            aliases.append(
                SimpleNamespace(
                    getClass=lambda: SimpleNamespace(getSimpleName=lambda: "Alias"),
                    child=lambda same=same: SimpleNamespace(canonicalized=lambda: same),
                )
            )
        below = Java("HashAggregateExec", fields=[n for _, n in first] + buffers)
        executed = Java("HashAggregateExec", [Java("ShuffleExchangeExec", [below])])
        execution = SimpleNamespace(
            executedPlan=lambda: executed,
            optimizedPlan=lambda: Java("Aggregate", items=aliases),
        )
        return SimpleNamespace(_jdf=SimpleNamespace(queryExecution=lambda: execution))


def _items(text: str) -> list[str]:
    """The items of a select list, up to FROM outside of parentheses."""
    found, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if depth == 0 and (c == "," or text.startswith(" FROM ", i)):
            found.append(text[start:i].strip())
            start = i + 1
            if c != ",":
                return found
    raise AssertionError(text)


def planned(node: Aggregate) -> tuple[Plan, Fused]:
    plan = chosen(build([Output("out", node)], ansi=True, zone="UTC"), [FrameInput(None)])
    (reading,) = plan.readings
    assert isinstance(reading, JvmPartials)
    return plan, Fused.of(plan, reading.path)


def columns_of(spark: Spark, node: Aggregate, root: str = "checkpoint") -> dict[str, str]:
    plan, fused = planned(node)
    bound = {"s": {"ts": START}}
    batch: Any = SimpleNamespace(
        plan=plan, root=root, now=None, bound=lambda n, c: bound[n][c], bounds=bound
    )
    inputs: Any = [SimpleNamespace(fields=plan.sources[0].schema, narrows=True)]
    found = partial_frame(spark, batch, inputs, fused)  # type: ignore[arg-type]
    assert found is not None
    return dict(found[1])


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_side, "_known", {})


WINDOW = TimeWindow(10, 10, 0, "ts")
SUMS = counted(SOURCE, ("k",), WINDOW, "v")
LEAST = replace(
    SUMS,
    primitives=(
        Primitive("_b0", "min", (column("v", "bigint"),), "bigint"),
        Primitive("_b1", "max", (column("v", "bigint"),), "bigint"),
    ),
    outputs=(Named("n", column("__sw_b0", "bigint")), Named("total", column("__sw_b1", "bigint"))),
)


def test_a_query_whose_outputs_change_reads_the_columns_of_its_new_outputs() -> None:
    """The same checkpoint, as many columns, but others: what was known of the old ones says nothing."""
    spark = Spark()
    before, after = columns_of(spark, SUMS), columns_of(spark, LEAST)
    assert before != after
    alone = columns_of(Spark(), LEAST, "another checkpoint")
    assert after == alone
    # And back again.
    assert columns_of(spark, SUMS) == before


def test_a_shape_is_made_once_for_a_query_that_stays_as_it_is() -> None:
    spark = Spark()
    for _ in range(3):
        columns_of(spark, SUMS)
    assert spark.shapes == 1
    columns_of(spark, SUMS, "another checkpoint")
    assert spark.shapes == 2


def test_equal_aggregates_have_one_buffer() -> None:
    """Spark computes them once, so two columns are read from one place."""
    twice = replace(SUMS, primitives=(*SUMS.primitives, Primitive("_a2", "count", (), "bigint")))
    found = columns_of(Spark(), twice)
    places = {n: p for n, p in found.items() if not n.startswith("__sw_k")}
    assert len(set(places.values())) < len(places)
    counts = [p for n, p in found.items() if n.startswith(("__sw_a0", "__sw_a2", "__sw_n"))]
    assert len(counts) >= 3 and len(set(counts)) == 1


def test_columns_of_other_types_are_other_columns() -> None:
    """The checkpoint was deleted, and another query with the same texts began in its place."""
    fields = tuple(replace(f, type="double") if f.name == "v" else f for f in FIELDS)
    other = replace(LEAST, child=replace(SOURCE, schema=fields))
    spark = Spark()
    columns_of(spark, LEAST)
    columns_of(spark, other)
    assert spark.shapes == 2


def test_values_that_are_never_null_are_counted_as_rows_are() -> None:
    """In a union with other inputs all columns may be null, so that Spark cannot know it."""

    def buffers(nullable: bool, **changed: Any) -> dict[str, str]:
        fields = tuple(replace(f, nullable=nullable) if f.name == "v" else f for f in FIELDS)
        source = replace(SOURCE, schema=fields)
        return columns_of(Spark(), replace(SUMS, child=source, **changed))

    mean = (Primitive("_a0", "avg", (column("v", "bigint"),), "double"),)
    counted_apart, counted_once = (buffers(n, primitives=mean) for n in (True, False))
    assert counted_apart["__sw_a0_n"] != counted_apart["__sw_n"]
    assert counted_once["__sw_a0_n"] == counted_once["__sw_n"]
    assert len(set(counted_apart.values())) == len(set(counted_once.values())) + 1


def test_the_oldest_time_is_asked_for_where_a_policy_needs_it() -> None:
    delayed = replace(SUMS, child=replace(SOURCE, policies=(MaxDelay(),)))
    assert "__sw_lo0" in columns_of(Spark(), delayed)
    assert "__sw_lo0" not in columns_of(Spark(), SUMS)
