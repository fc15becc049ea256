"""What PySpark's classes have and ours do not: each name says what to use, and what it says is tried."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater as sw
from slackwater.surface.grouped import GroupedStream
from slackwater.surface.stream import Stream
from slackwater.surface.unsupported_names import ON_GROUPS, ON_STREAMS, ON_WRITERS, Advice
from slackwater.surface.writer import StreamWriter
from tests.surface.helpers import times, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {"stream": ON_STREAMS, "groups": ON_GROUPS, "writer": ON_WRITERS}
OURS = {"stream": Stream, "groups": GroupedStream, "writer": StreamWriter}
OTHER_RELEASES = {
    "is_cached", "sql_ctx", "repartitionById", "nearestByJoin", "zip", "zipWithIndex", "transformWithState",
}  # fmt: skip
"""Names that some release of PySpark from 4.0 on has, and another has not."""


def public(*classes: type) -> set[str]:
    return {name for c in classes for name in dir(c) if not name.startswith("_")}


def theirs() -> dict[str, set[str]]:
    sql = pytest.importorskip("pyspark.sql")
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
    from pyspark.sql.streaming import DataStreamWriter

    return {
        "stream": public(sql.DataFrame, ClassicFrame),
        "groups": public(sql.GroupedData),
        "writer": public(DataStreamWriter),
    }


@pytest.mark.parametrize("kind", TABLES)
def test_every_public_name_of_pyspark_is_there_or_has_advice(kind: str):
    table, ours = TABLES[kind], public(OURS[kind])
    assert theirs()[kind] - ours - set(table) == set(), "names without advice"
    assert set(table) & ours == set(), "advice for names that are there"
    assert set(table) - theirs()[kind] <= OTHER_RELEASES, "advice for names that nobody has"


class Made:
    """The objects that advice speaks of."""

    def __init__(self, spark: SparkSession, folder: Path):
        from pyspark.sql import SparkSession, functions

        schema = "k string, ts timestamp, v bigint, offset bigint"
        # As many rows as a preview waits for.
        write(
            folder / "in", "0.parquet",
            {"k": ["a"] * 20, "ts": times(*range(20)), "v": list(range(20)), "offset": list(range(20))},
        )  # fmt: skip
        frame = spark.readStream.schema(schema).parquet(str(folder / "in"))
        stream = sw.stream(frame, time="ts", name="a")
        other = sw.stream(frame, time="ts", name="b")
        self.folder = folder
        self.names: dict[str, Any] = {
            "sw": sw, "F": functions, "spark": spark, "SparkSession": SparkSession, "df": frame,
            "stream": stream, "other": other,
            "static": spark.createDataFrame([("a", 1)], "k string, v bigint"),
        }  # fmt: skip
        memory = stream.writeStream.format("memory").queryName("results")
        query = memory.trigger(availableNow=True).start()
        query.awaitTermination()
        self.names["query"] = query
        self.objects = {
            "stream": stream, "groups": stream.groupBy("k", sw.window("1 minute")), "writer": stream.writeStream,
        }  # fmt: skip

    def tried(self, code: str, number: int) -> Any:
        """The value of a piece of code."""
        return eval(code, {**self.names, "path": str(self.folder / f"ck{number}")})


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    objects = Made(spark, tmp_path_factory.mktemp("advice"))
    yield objects
    spark.catalog.dropTempView("results")


def every() -> list[tuple[str, str, Advice]]:
    return [(kind, name, advice) for kind, t in TABLES.items() for name, advice in t.items()]


@pytest.mark.spark
def test_names_that_are_not_there_say_what_to_use(made: Made):
    for kind, name, advice in every():
        thing = made.objects[kind]
        assert not hasattr(thing, name)
        with pytest.raises(AttributeError) as caught:
            getattr(thing, name)
        error = caught.value
        assert isinstance(error, sw.AnalysisError)
        assert error.condition == "NOT_ON_A_STREAM"
        assert f" has no '{name}': {advice.why}" in str(error)
        assert error.hint == advice.use
        assert re.search("`.+?`", error.hint), f"{name}: no code in {error.hint}"


@pytest.mark.spark
def test_what_advice_says_works(made: Made):
    texts = {text for _, _, advice in every() for text in advice}
    pieces = sorted({code for text in texts for code in re.findall("`(.+?)`", text)})
    for number, code in enumerate(pieces):
        result = made.tried(code, number)
        returns_nothing = ".explain()" in code or ".createOrReplaceTempView(" in code
        assert result is not None or returns_nothing, code
        if isinstance(result, sw.StreamingQuery):
            result.stop()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("withWatermark", ["progress=sw.BoundedDelay"]),
        ("show", ["stream.preview(20)"]),
        ("limit", ["stream.preview(20)"]),
        ("agg", ["groupBy(sw.window("]),
        ("write", ["writeStream"]),
        ("collect", ["preview", "memory"]),
        ("crossJoin", ["sw.band"]),
        ("repartition", ["partitionGroups"]),
        ("cache", ["sw.start"]),
    ],
)
def test_names_that_everybody_tries(made: Made, name: str, parts: list[str]):
    with pytest.raises(AttributeError) as caught:
        getattr(made.objects["stream"], name)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.spark
def test_who_probes_for_names_is_not_misled(made: Made):
    for thing in made.objects.values():
        for probe in (
            "_repr_html_", "_repr_mimebundle_", "_ipython_display_", "_ipython_canary_method_should_not_exist_",
            "__arrow_c_stream__", "__wrapped__", "nonsense",
        ):  # fmt: skip
            with pytest.raises(AttributeError, match=probe) as caught:
                getattr(thing, probe)
            assert not isinstance(caught.value, sw.SlackwaterError)
        assert set(dir(thing)) >= public(type(thing))
        assert not set(dir(thing)) & {"limit", "pivot", "clusterBy"}
        again = copy.copy(thing)
        assert type(again) is type(thing) and vars(again) == vars(thing)
        with pytest.raises(Exception, match=r"(?i)pickle|serializ|driver"):
            pickle.dumps(thing)


def test_an_error_inside_a_property_is_not_hidden():
    class Broken(Stream):
        @property
        def columns(self) -> list[str]:
            raise AttributeError("the cause")

    with pytest.raises(AttributeError, match="the cause"):
        _ = Broken.__new__(Broken).columns


def test_an_object_that_was_not_made_yet_has_no_attributes():
    empty = Stream.__new__(Stream)
    with pytest.raises(AttributeError, match="_node"):
        _ = empty._node
    assert not hasattr(empty, "__setstate__")


def test_the_error_survives_pickling():
    error = pickle.loads(pickle.dumps(_error(ON_STREAMS)))
    assert isinstance(error, AttributeError)
    assert isinstance(error, sw.AnalysisError)
    assert "progress=" in str(error)


def _error(table: Mapping[str, Advice]) -> AttributeError:
    from slackwater.surface.unsupported_names import unsupported

    return unsupported("a stream", "withWatermark", table)
